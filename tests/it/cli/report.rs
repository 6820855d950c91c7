//! `servecast report`, and its pages in a browser.

mod browser;

use super::{Cli, SCENARIO};

const HOSTILE: &str = "<script>alert('x')</script> & <b>\"fast\"</b>";

/// A scenario with a hostile name, a variant, measured figures, limits and a trait that is warned of.
fn hostile() -> String {
    let name = HOSTILE.replace('\'', "''");
    SCENARIO.replace("name = \"small\"", &format!("name = {}", toml::Value::from(HOSTILE)))
        + &format!(
            "[report]\nformat = \"vllm\"\ngoodput = {{ ttft = 50.0, tpot = 20.0 }}\n\
             [measured]\nsource = {}\nmetrics = {{ mean_ttft_ms = 2.0, duration = 2.0 }}\n\
             [[variants]]\nname = \"slower\"\nset = {{ \"cluster.replicas\" = 2 }}\n",
            toml::Value::from(name)
        )
}

fn page(cli: &Cli, folder: &str) -> String {
    cli.words(&format!("report {folder}"))
        .expect_exit(0)
        .stdout_is_empty()
        .stderr_has("report in ");
    cli.read(&format!("{folder}/report.html"))
}

/// A folder of each kind, all with a hostile name.
fn folders() -> (Cli, [&'static str; 4]) {
    let scenario = hostile();
    let (base, _) = scenario.split_once("[[variants]]").unwrap();
    let cli = Cli::new().file("s.toml", &scenario).file("base.toml", base);
    cli.words("run s.toml --output-dir run").expect_exit(0);
    cli.words("compare s.toml --seeds 3 --output-dir compared").expect_exit(0);
    cli.words(
        "sweep base.toml --vary workload.arrivals.rate_per_s=5,10,20 --vary cluster.replicas=1,2 --seeds 2 \
         --output-dir sweep",
    )
    .expect_exit(0);
    cli.run(["plan", "base.toml", "--slo", "p99_ttft_ms<=500", "--output-dir", "plan"])
        .expect_exit(0);
    (cli, ["run", "compared", "sweep", "plan"])
}

/// Values of these attributes, and what `url(…)` names.
fn addresses(page: &str) -> Vec<&str> {
    let attributes =
        ["src=\"", "href=\"", "srcset=\"", "action=\"", "poster=\"", "data=\"", "url("];
    let of = |start: &'static str| {
        page.split(start).skip(1).map(|rest| rest.split(['"', ')']).next().unwrap_or_default())
    };
    attributes.into_iter().flat_map(of).collect()
}

#[test]
fn every_folder_becomes_a_page_that_names_nothing_elsewhere() {
    let (cli, folders) = folders();
    for folder in folders {
        let page = page(&cli, folder);
        // Links lead to places of the page, each of which is there once.
        for address in addresses(&page) {
            let place = address.strip_prefix('#').unwrap_or_else(|| panic!("{folder}: {address}"));
            assert_eq!(page.matches(&format!(" id=\"{place}\"")).count(), 1, "{folder}: {address}");
        }
        for hostile in ["<script", "<b>", "@import", "javascript:", "<link", "<iframe", "<img"] {
            assert!(!page.contains(hostile), "{folder}: {hostile}");
        }
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"), "{folder}");
        assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'"), "{folder}");
        assert_eq!(page.matches("<h1>").count(), 1, "{folder}");
        let drawn = page.matches("<svg id=").count();
        assert!(drawn >= usize::from(cfg!(feature = "plot")), "{folder}");
        assert_eq!(drawn, page.matches("<figcaption>").count(), "{folder}");
        assert_eq!(drawn, page.matches(" role=\"img\" aria-label=\"").count(), "{folder}");
    }
}

#[test]
fn equal_folders_give_equal_pages() {
    let (cli, folders) = folders();
    for folder in folders {
        let first = page(&cli, folder);
        // One's own page is replaced, and is no part of the next.
        assert_eq!(page(&cli, folder), first, "{folder}");
        cli.words(&format!("report {folder} --output {folder}.html")).expect_exit(0);
        assert_eq!(cli.read(&format!("{folder}.html")), first, "{folder}");
    }
}

#[test]
fn the_page_of_a_run_tells_what_the_summary_tells() {
    let (cli, _) = folders();
    let page = page(&cli, "run");
    for told in [
        "servecast run s.toml --output-dir run",
        "Median TTFT",
        "Measured beside simulated",
        "SLOs",
        "The scenario with all defaults",
        "Total input tokens",
        ">2,000<",
    ] {
        assert!(page.contains(told), "{told}");
    }
}

#[test]
fn the_page_of_a_plan_says_which_slo_limits_it_and_names_no_flag() {
    let scenario = "name = 'own'\n[workload]\nnum_requests = 40\n\
                    arrivals = { type = 'poisson', rate_per_s = 1.0 }\n\
                    lengths = { type = 'fixed', input_tokens = 300, output_tokens = 40 }\n\
                    [cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100'\n";
    let cli = Cli::new().file("s.toml", scenario);
    let told = |slo: &str, exit: i32, gpus: &str| -> (String, String) {
        let folder = format!("plan-{slo}").replace(|c: char| !c.is_alphanumeric(), "-");
        let more = format!("{gpus} --all --max-gpus 4 --resamples 0 --output-dir {folder}");
        let words = ["plan", "s.toml", "--slo", slo].into_iter().chain(more.split(' '));
        let said = cli.run(words).expect_exit(exit).stdout();
        // Only the command that was typed has flags.
        std::fs::remove_file(cli.path(&format!("{folder}/run.json"))).unwrap();
        let page = page(&cli, &folder);
        let (_, body) = page.split_once("</style>").expect("it has a style");
        (said, body.to_owned())
    };
    let met = told("p99_ttft_ms<=900", 0, "--gpu H100,L40S");
    let missed = told("p99_ttft_ms<=0.1", 1, "--gpu H100,L40S");
    let unpriced = told("p99_ttft_ms<=901", 1, "--gpu L40S,H20");
    for (said, page) in [&met, &missed, &unpriced] {
        let flags = |text: &str| {
            let words = text.split(|c: char| c.is_whitespace() || "<>`(".contains(c));
            words.filter(|word| word.starts_with("--")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(!flags(said).is_empty(), "the terminal is given hints: {said}");
        assert_eq!(flags(page), [""; 0]);
        assert!(page.contains("what limits it") && !page.contains("binding"), "{page}");
    }
    assert!(met.1.contains("no SLO limits it: there cannot be fewer replicas"), "{}", met.1);
    assert!(met.1.contains("USD/month"), "{}", met.1);
    assert!(met.1.contains("no price is known"), "{}", met.1);
    assert!(missed.1.contains("1 layout without a price took no part."), "{}", missed.1);
    assert!(unpriced.1.contains("No layout was tried: no price"), "{}", unpriced.1);
}

#[test]
fn the_page_of_a_sweep_says_up_to_where_limits_are_kept() {
    // A step takes 1 s with 10 sequences or fewer: one request after the other keeps the limit, more do not.
    let scenario = SCENARIO.replace("decode_seq_us = 10.0", "decode_seq_us = 20000.0")
        + "[report]\nformat = \"vllm\"\ngoodput = { tpot = 60.0 }\n";
    let cli = Cli::new().file("s.toml", scenario);
    cli.words("sweep s.toml --vary workload.arrivals.rate_per_s=0.1,1000 --output-dir out")
        .expect_exit(0);
    let page = page(&cli, "out");
    assert!(page.contains("up to rate_per_s 0.1; at 1000 it is "), "{page}");
}

#[test]
fn the_page_of_a_sweep_says_from_where_on_limits_are_kept() {
    // A request takes a second of a replica that serves one at a time; two come every second.
    let text = SCENARIO
        .replace("rate_per_s = 10.0", "rate_per_s = 2.0")
        .replace("base_us = 1000.0", "base_us = 100000.0")
        .replace("gpu =", "engine = { type = \"vllm_v1\", max_num_seqs = 1 }\ngpu =")
        + "[report]\ngoodput = { ttft = 150.0 }\n";
    let cli = Cli::new().file("s.toml", text);
    cli.words("sweep s.toml --vary cluster.replicas=1,2,16,20 --output-dir out").expect_exit(0);
    let page = page(&cli, "out");
    assert!(page.contains("from replicas 16 on"), "{page}");
    cli.words("sweep s.toml --vary cluster.replicas=1,2 --output-dir few").expect_exit(0);
    let page = self::page(&cli, "few");
    assert!(page.contains("at no replicas from 1 to 2; at 2 it is "), "{page}");
}

#[test]
fn runs_that_are_missing_or_failed_are_told_first() {
    let cli = Cli::with_scenario();
    cli.words(
        "sweep s.toml --vary workload.num_requests=5,10 --seeds 2 --shard 1/2 --output-dir out",
    )
    .expect_exit(0);
    let page = page(&cli, "out");
    let warnings = page.find("2 of 4 runs are here").expect("it is told");
    assert!(warnings < page.find("<table>").expect("a table"));
}

#[test]
fn files_of_others_are_not_replaced() {
    let cli = Cli::with_scenario();
    cli.words("run s.toml --output-dir out").expect_exit(0);
    let cli = cli.file("out/report.html", "<html>mine</html>");
    cli.words("report out").expect_exit(2).stderr_has("report.html: was not made by servecast");
    assert_eq!(cli.read("out/report.html"), "<html>mine</html>");
    cli.words("report out --overwrite").expect_exit(0);
    assert!(cli.read("out/report.html").contains("<h1>small</h1>"));
    cli.words("report out --output out").expect_exit(2).stderr_has("out: ");
}

#[test]
fn folders_without_results_are_refused() {
    let cli = Cli::with_scenario();
    cli.words("report .")
        .expect_exit(2)
        .stderr_has("holds none of run.json (run, bench), sweep.json");
    cli.words("report absent").expect_exit(2).stderr_has("absent: is no folder");
    let cli = cli.file("broken/plan.json", "{");
    cli.words("report broken").expect_exit(2).stderr_has("plan.json: EOF while parsing");
}

#[cfg(feature = "plot")]
#[test]
fn a_figure_that_is_none_is_left_out_and_said() {
    let cli = Cli::with_scenario();
    cli.words("run s.toml --output-dir out").expect_exit(0);
    let cli = cli.file("out/figures/throughput.svg", "<svg width=\"9\"><script>1</script></svg>\n");
    cli.words("report out").expect_exit(0).stderr_has("throughput.svg: is no figure of servecast");
    assert!(!cli.read("out/report.html").contains("<script"));
}

#[test]
fn every_headline_figure_of_a_run_is_found_in_its_summary() {
    let priced = format!(
        "{SCENARIO}\n[report]\nprices = {{ \"H100-SXM5-80GB\" = 3.0 }}\ngoodput = {{ ttft = 50.0 }}\n"
    );
    for format in ["sglang", "vllm"] {
        let cli = Cli::new().file("s.toml", &priced);
        cli.words(&format!("run s.toml --set report.format={format} --output-dir run"))
            .expect_exit(0);
        let page = page(&cli, "run");
        for title in [
            "Output throughput",
            "Requests",
            "Median TTFT",
            "P99 TTFT",
            "Median TPOT",
            "P99 TPOT",
            "Requests finished",
            "GPU time",
            "Cost",
            "Within all limits",
        ] {
            assert!(page.contains(&format!("<dt>{title}</dt>")), "{format}: {title}");
        }
    }
}

#[test]
fn the_page_of_a_run_says_where_servers_like_its_own_are() {
    let scenario = "name = 'r'\n[workload]\nnum_requests = 40\narrivals = { type = 'poisson', rate_per_s = 4.0 }\n\
                    lengths = { type = 'fixed', input_tokens = 800, output_tokens = 40 }\n\
                    [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'A100'\nengine = { type = 'vllm_v1' }\n";
    let cli = Cli::new().file("r.toml", scenario);
    let of = |folder: &str, arguments: &[&str]| {
        cli.run([&["run", "r.toml", "--output-dir", folder], arguments].concat()).expect_exit(0);
        page(&cli, folder)
    };
    let typical = of("typical", &[]);
    assert!(typical.contains("Servers like these"), "{typical}");
    let told = "90 % of servers of dense models on GPUs without FP8 are between these figures.";
    assert!(typical.contains(told), "{typical}");
    let summary = cli.read("typical/summary.json");
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let interval = summary["expected"]["interval_90"].as_object().unwrap();
    assert!(!interval.is_empty());
    assert_eq!(summary["expected"]["servers"], "typical");
    let (_, part) = typical.rsplit_once("Servers like these").unwrap();
    let (part, _) = part.split_once("</section>").unwrap();
    assert_eq!(part.matches("<tr>").count(), interval.len() + 1, "{part}");
    let slow = of("slow", &["--servers", "slow"]);
    let told =
        "They are taken to be slower than 19 of 20 servers of dense models on GPUs without FP8.";
    assert!(slow.contains(told), "{slow}");
    assert!(!of("known", &["--set", "cluster.host=none"]).contains("Servers like these"));
}
