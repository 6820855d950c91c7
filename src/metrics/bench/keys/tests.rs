//! Keys and labels read back as what they name.

use super::*;

#[test]
fn a_key_reads_back_for_either_tool() {
    let percentile = Statistic::Percentile(99.9);
    let mut keys: Vec<MetricKey> = FIGURES.iter().map(|f| MetricKey::Figure(f.0)).collect();
    for latency in Latency::ALL {
        keys.push(MetricKey::Latency(latency, percentile));
        keys.push(MetricKey::Latency(latency, Statistic::StdDev));
    }
    for key in keys {
        for tool in [Tool::Sglang, Tool::Vllm] {
            assert_eq!(MetricKey::parse(&key.name(tool)), Some(key), "{key:?}");
        }
    }
}

#[test]
fn every_label_reads_back() {
    for known in &FIGURES {
        assert_eq!(MetricKey::of_label(known.2), Some(MetricKey::Figure(known.0)));
    }
    let key = MetricKey::Latency(Latency::E2e, Statistic::Percentile(90.0));
    for label in ["P90 E2E Latency (ms):", "P90 E2EL (ms):", "p90 e2el (ms)"] {
        assert_eq!(MetricKey::of_label(label), Some(key), "{label}");
    }
}

#[test]
fn a_title_names_its_unit_once() {
    let title = |figure| MetricKey::Figure(figure).title(Tool::Vllm);
    assert_eq!(title(Figure::Duration), "Benchmark duration (s)");
    assert_eq!(title(Figure::InputTokens), "Total input tokens");
    assert_eq!(title(Figure::AcceptLength), "Accept length (tok)");
    assert_eq!(title(Figure::AcceptanceRate), "Acceptance rate (%)");
    for known in &FIGURES {
        let title = title(known.0);
        assert!(!title.contains("tokens (tok)") && !title.contains("%) (%"), "{title}");
    }
    assert_eq!(title(Figure::Completed), "Successful requests");
}
