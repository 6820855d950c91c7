//! An explanation in words.

use super::account::{Account, PartKind};
use super::pick::Metric;
use super::question::{Explained, Subject};
use super::ranking::{Ranked, Ranking};
use super::sight::Came;
use super::slo::Missed;
use crate::compare::{Interval, quantity};
use crate::plain::{grouped, percent, table};

/// Which changes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Those with a difference; the others by their names.
    Notable,
    /// Also those that make no difference, and those that were left out.
    All,
}

/// The request: who it is, what was going on around it, and where its time went.
pub(super) fn account(found: &Explained) -> String {
    let mut lines: Vec<String> = found.slo.iter().map(missed).collect();
    lines.extend(story(found));
    lines.extend(surroundings(found));
    lines.extend(sizes(found));
    lines.extend(beyond(found));
    let story: String = lines.into_iter().map(|line| line + "\n").collect();
    format!("{story}\n{}", parts(found))
}

/// By which SLO the latency was chosen.
fn missed(slo: &Missed) -> String {
    let metric = slo.metric.title();
    let name = match slo.limit_ms {
        Some(limit_ms) => format!("the SLO of {metric}, {limit_ms} ms"),
        None => format!("its SLO of {metric}"),
    };
    let of = grouped(slo.of as u64);
    match (slo.missed, slo.slos) {
        (0, 1) => format!("All {of} requests meet {name}."),
        (0, _) => format!(
            "All {of} requests meet the SLOs; that of {metric} is the nearest to its limit."
        ),
        (missed, slos) => {
            let (missed, verb) =
                (grouped(missed as u64), if missed == 1 { "misses" } else { "miss" });
            let most = if slos == 1 { "" } else { "; no other SLO is missed more often" };
            format!("{missed} of {of} requests {verb} {name}{most}.")
        }
    }
}

/// Who it is, and how slow it was.
fn story(found: &Explained) -> Vec<String> {
    let one = &found.request;
    let per_token = |ms: Option<f64>| ms.map(|ms| format!(", {} per token after that", time(ms)));
    let [ttft, tpot, e2e] = found.medians_ms;
    let adapter = one.adapter.map(|id| format!(" for adapter {id}")).unwrap_or_default();
    let mut lines = vec![
        format!(
            "Request {} was sent at {} s with {}{}. Its answer has {}.",
            one.request,
            quantity(one.sent_s),
            counted(one.prompt_tokens.into(), "prompt token"),
            adapter,
            counted(one.output_tokens.into(), "token")
        ),
        format!(
            "Its first token came after {}{}; its last after {}.",
            time(one.ttft_ms),
            per_token(one.tpot_ms).unwrap_or_default(),
            time(one.e2e_ms)
        ),
        format!(
            "Medians of all requests: {} to the first token, {} per token, {} to the last.",
            time(ttft),
            time(tpot),
            time(e2e)
        ),
    ];
    let (metric, answered) = (found.metric.title(), grouped(found.answered as u64));
    lines.push(if found.is_at_percentile {
        format!("It is at the P{} of {metric} among {answered} requests.", found.percentile)
    } else {
        let faster = grouped(found.faster as u64);
        format!("{faster} of {answered} requests had a lower {metric}.")
    });
    lines
}

/// What was going on around it.
fn surroundings(found: &Explained) -> Vec<String> {
    let (one, around) = (&found.request, &found.request.around);
    let mut lines = Vec::new();
    if one.attempts > 1 {
        lines.push(format!(
            "It was sent {} times: clients gave the attempts before up, or replicas lost them.",
            one.attempts
        ));
    }
    for (replica, at_s) in &around.crashes {
        lines.push(format!(
            "Replica {replica} crashed at {} s, while the request was in the system.",
            quantity(*at_s)
        ));
    }
    if let Some(choice) = &around.choice {
        let inside = counted(choice.inside.into(), "request");
        let router = &found.router;
        let who = match (choice.replicas - 1, choice.down) {
            (1, 0) => "The other one".to_owned(),
            (1, _) => "Another one".to_owned(),
            (many, 0) => format!("The other {many}"),
            (many, _) => format!("{many} others"),
        };
        let others = choice.others.map(|(least, most)| {
            let others =
                if least == most { least.to_string() } else { format!("{least} to {most}") };
            format!(" {who} held {others}.")
        });
        let down = match choice.down {
            0 => None,
            1 => Some(" 1 was down.".to_owned()),
            down => Some(format!(" {down} were down.")),
        };
        if others.is_some() || down.is_some() {
            lines.push(format!(
                "The router ({router}) sent it to replica {}, which held {inside}.{}{}",
                choice.replica,
                others.unwrap_or_default(),
                down.unwrap_or_default()
            ));
        }
    }
    for (place, queue) in around.found.iter().enumerate() {
        let who = match (place, queue.came) {
            (0, Came::Sent) => "Its engine".to_owned(),
            (_, Came::Sent) => format!("Replica {}, to which it was sent again,", queue.replica),
            (_, Came::ToDecode) => format!("Replica {}, which decoded it,", queue.replica),
            (_, Came::Moved) => format!("Replica {}, to which it was moved,", queue.replica),
        };
        lines.push(format!(
            "{who} had {} running and {} waiting when it came, and {} of KV memory in use.",
            counted(queue.running.into(), "request"),
            grouped(queue.waiting.into()),
            share(queue.kv_held)
        ));
    }
    if one.cached_tokens > 0 {
        lines.push(format!(
            "The prefix cache had {} of its prompt tokens.",
            grouped(one.cached_tokens.into())
        ));
    }
    if around.prefill_steps > 0 {
        let shared = match around.other_prefill_tokens {
            0 => "no prompt of others".to_owned(),
            tokens => format!("{} of others", counted(tokens, "prompt token")),
        };
        let steps = counted(around.prefill_steps.into(), "step");
        lines.push(format!("Its prompt took {steps}, which also computed {shared}."));
    }
    if around.decode_steps > 0 {
        lines.push(format!(
            "While it decoded, its replica took {}, of which {} also computed prompts of others.",
            counted(around.decode_steps, "step"),
            grouped(around.mixed_steps)
        ));
    }
    if one.preemptions > 0 {
        let times = counted(one.preemptions.into(), "time");
        lines.push(format!("It lost its KV memory {times} and was computed anew."));
    }
    lines
}

/// How much longer its prompt and answer are than those of the median request, where that is much.
fn sizes(found: &Explained) -> Option<String> {
    const MUCH: f64 = 1.5;
    let (one, median) = (&found.request, found.median.as_ref()?);
    let sizes = [
        ("prompt", one.prompt_tokens, median.prompt_tokens),
        ("answer", one.output_tokens, median.output_tokens),
    ];
    let longer = sizes.into_iter().filter_map(|(what, own, other)| {
        let times = f64::from(own) / f64::from(other.max(1));
        (times >= MUCH).then(|| format!("its {what} is {times:.1} times as long"))
    });
    let longer: Vec<String> = longer.collect();
    (!longer.is_empty()).then(|| format!("Beside the median request, {}.", longer.join(", and ")))
}

/// What made it slower than the median request, in what the latency measures.
fn beyond(found: &Explained) -> Option<String> {
    let median = found.median.as_ref()?;
    let is_measured = |kind: &PartKind| match found.metric {
        Metric::Ttft => kind.is_before_first_token(),
        Metric::Tpot => !kind.is_before_first_token(),
        Metric::E2e => true,
    };
    let spent = |one: &Subject, kind: PartKind| {
        let tokens = f64::from(one.output_tokens.saturating_sub(1).max(1));
        ms(&one.account, kind) / if found.metric == Metric::Tpot { tokens } else { 1.0 }
    };
    let kinds = PartKind::ALL.into_iter().filter(is_measured);
    let more = kinds.map(|kind| (kind, spent(&found.request, kind) - spent(median, kind)));
    let mut more: Vec<(PartKind, f64)> = more.collect();
    let whole: f64 = more.iter().map(|(_, ms)| ms).sum();
    more.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let named = more.iter().take(2).filter(|(_, ms)| *ms > 0.0 && *ms >= 0.1 * whole);
    let named: Vec<String> =
        named.map(|(kind, ms)| format!("{} (+{})", kind.words(), time(*ms))).collect();
    if named.is_empty() || whole <= 0.0 {
        return None;
    }
    let (what, other) = match found.metric {
        Metric::Ttft => ("Its first token", "that of the median request"),
        Metric::Tpot => ("Each token after the first", "one of the median request"),
        Metric::E2e => ("It", "the median request"),
    };
    let (whole, named) = (time(whole), named.join(" and "));
    Some(format!("{what} took {whole} longer than {other}, above all in {named}."))
}

/// The parts in a table.
fn parts(found: &Explained) -> String {
    let subjects: Vec<(&str, &Subject)> = std::iter::once(("", &found.request))
        .chain(found.median.as_ref().map(|median| ("median: ", median)))
        .collect();
    let head = subjects.iter().flat_map(|(what, one)| {
        [format!("{what}request {} (ms)", one.request), "share".to_owned()]
    });
    let head: Vec<String> = std::iter::once("Where its time went".to_owned()).chain(head).collect();
    let row = |name: &str, of: &dyn Fn(&Account) -> f64| {
        let cells = subjects.iter().flat_map(|(_, one)| {
            let ms = of(&one.account);
            [format!("{ms:.1}"), share(ms / one.e2e_ms)]
        });
        std::iter::once(name.to_owned()).chain(cells).collect::<Vec<String>>()
    };
    let is_there = |kind: &PartKind| subjects.iter().any(|(_, one)| ms(&one.account, *kind) > 0.0);
    let of = |before: bool| {
        let kinds =
            PartKind::ALL.into_iter().filter(move |kind| kind.is_before_first_token() == before);
        kinds.filter(is_there).map(|kind| {
            row(&format!("  {}", kind.words()), &move |account: &Account| ms(account, kind))
        })
    };
    let rows = std::iter::once(head)
        .chain(of(true))
        .chain([row("to the first token", &|account| account.ttft().as_millis_f64())])
        .chain(of(false))
        .chain([row("to the last token", &|account| account.total().as_millis_f64())]);
    table(&rows.collect::<Vec<_>>(), &[])
}

/// Whether a change may do as much, as far as its seeds tell, that it cannot be said to do nothing.
fn is_undecided(one: &Ranked) -> bool {
    /// Of the latency without the change.
    const NOTABLE: f64 = 0.1;
    one.half_width_ms.is_some_and(|ms| ms.is_finite() && ms > NOTABLE * one.now_ms)
}

/// What changes do.
pub(super) fn changes(found: &Explained, ranking: &Ranking, shown: Shown) -> String {
    let all = shown == Shown::All;
    let what = format!("P{} of {}", found.percentile, found.metric.title());
    let mut lines = vec![String::new(), lead(found, ranking, &what)];
    let is_shown = |one: &Ranked| one.differs() || one.is_unsure();
    let shown = ranking.changes.iter().filter(|one| all || is_shown(one));
    let shown: Vec<&Ranked> = shown.chain(&ranking.less_load).collect();
    if !shown.is_empty() {
        let head = ["Change", "now (ms)", "then (ms)", "difference", "GPUs", ""];
        let rows = shown.into_iter().map(|one| row(found, ranking, one));
        let rows: Vec<Vec<String>> =
            std::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect();
        lines.push(table(&rows, &[5]).trim_end().to_owned());
    }
    if all {
        let left = ranking.left_out.iter();
        lines.extend(left.map(|one| format!("Left out: {} ({})", one.name, one.why)));
    } else {
        let rest = ranking.changes.iter().filter(|one| !is_shown(one));
        let (worse, rest): (Vec<_>, Vec<_>) = rest.partition(|one| one.seems_worse());
        let (undecided, same): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|one| is_undecided(one));
        let names = |of: Vec<&Ranked>| {
            of.into_iter().map(|one| one.change.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        if !worse.is_empty() {
            let each = worse
                .iter()
                .map(|one| format!("{} (by about {})", one.change.name, time(one.difference_ms)));
            let each = each.collect::<Vec<_>>().join("; ");
            lines.push(format!("Seems worse, in the first seeds: {each}."));
        }
        if !same.is_empty() {
            lines.push(format!("No difference found: {}.", names(same)));
        }
        if !undecided.is_empty() {
            let names = names(undecided);
            lines.push(format!("Undecided, with these seeds: {names}. --all shows by how much."));
        }
    }
    let untold = ranking.not_judged.iter();
    lines.extend(untold.map(|one| format!("Not judged: {} ({}).", one.name, one.why)));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The one that changes most, and the one that does for no more GPUs.
fn lead(found: &Explained, ranking: &Ranking, what: &str) -> String {
    let tried = ranking.changes.len() as u64;
    let few = ranking.num_requests.map(|count| format!(" with num_requests = {count}"));
    let few = few.unwrap_or_default();
    let requests = if ranking.is_resampled {
        "stretches resampled from the trace".to_owned()
    } else {
        format!("the same requests{few}")
    };
    let how = format!("{} seeds, {requests}", ranking.seeds);
    let note = if ranking.seeds_differ {
        let level = percent(ranking.confidence);
        format!("({how}; {tried} changes judged together at {level})")
    } else {
        format!("(no seed changes these requests{few}: it says nothing of others)")
    };
    // A change that leaves slow requests without an answer is no remedy.
    let remedies = ranking.changes.iter().filter(|one| one.answered_change > -1e-9);
    let mut better = remedies.filter(|one| one.is_better());
    let Some(best) = better.next() else {
        let tried = counted(tried, "change");
        return format!("None of {tried} is shown to lower the {what} {note}.");
    };
    let price = match best.gpus.saturating_sub(found.gpus) {
        0 => String::new(),
        1 => ", for 1 GPU more".to_owned(),
        more => format!(", for {more} GPUs more"),
    };
    let to = |one: &Ranked| format!("from {} to {}", time(one.now_ms), time(one.then_ms));
    let head = format!("{} lowers the {what} most: {}{price} {note}.", best.change.name, to(best));
    let head = head + &as_good(ranking, best);
    let without = match better.find(|one| one.gpus <= found.gpus) {
        _ if best.gpus <= found.gpus => return head,
        Some(free) => format!("Without more GPUs, {} does: {}.", free.change.name, to(free)),
        None => "Without more GPUs, no change is shown to lower it.".to_owned(),
    };
    format!("{head}\n{without}")
}

/// The changes that the best one is not shown to be better than.
fn as_good(ranking: &Ranking, best: &Ranked) -> String {
    /// Changes that are named.
    const NAMED: usize = 3;
    // A remedy that comes after one that is none was not compared with the others.
    if ranking.changes.first() != Some(best) {
        return String::new();
    }
    let close = ranking.changes.iter().filter(|one| one.is_behind_first == Some(false));
    let names: Vec<&str> = close.map(|one| one.change.name.as_str()).collect();
    let named = names[..names.len().min(NAMED)].join(" or ");
    match names.len() {
        0 => String::new(),
        count if count > NAMED => {
            format!("\nNot shown to lower it more than {named} or {} others.", count - NAMED)
        }
        _ => format!("\nNot shown to lower it more than {named}."),
    }
}

/// Half the width of the interval in ms; none of one seed, and where seeds differ in the rounding of times alone.
fn spread(one: &Ranked) -> f64 {
    /// A thousandth of a nanosecond, the unit of the clock.
    const NONE_MS: f64 = 1e-9;
    one.half_width_ms.filter(|ms| *ms >= NONE_MS).unwrap_or(0.0)
}

fn row(found: &Explained, ranking: &Ranking, one: &Ranked) -> Vec<String> {
    let gpus = match (found.gpus, one.gpus) {
        (now, then) if now == then => now.to_string(),
        (now, then) => format!("{now} → {then}"),
    };
    let answered = match one.answered_change {
        change if change.abs() < 1e-9 => String::new(),
        less if less < 0.0 => format!(", answers {} fewer", share(-less)),
        more => format!(", answers {} more", share(more)),
    };
    let verdict = match one.verdict {
        _ if one.is_unsure() => "unsure",
        _ if !one.differs() && !one.seems_worse() && is_undecided(one) => "undecided",
        verdict => verdict,
    };
    let seeds = match one.seeds {
        seeds if seeds == ranking.seeds => String::new(),
        1 => ", 1 seed".to_owned(),
        seeds => format!(", {seeds} seeds"),
    };
    vec![
        one.change.name.clone(),
        quantity(one.now_ms),
        quantity(one.then_ms),
        format!("{:+}", Interval::new(one.difference_ms, spread(one))),
        gpus,
        format!("{verdict}{answered}{seeds}"),
    ]
}

fn ms(account: &Account, kind: PartKind) -> f64 {
    account.of(kind).as_millis_f64()
}

/// A time of three digits.
fn time(ms: f64) -> String {
    if ms < 1e3 { format!("{} ms", quantity(ms)) } else { format!("{} s", quantity(ms / 1e3)) }
}

fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count))
}
