//! Counters, gauges and distributions in the text format of Prometheus.

use std::borrow::Cow;

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram as ProtoHistogram, LabelPair, Metric, MetricFamily,
    MetricType,
};
use prometheus::{Encoder, TextEncoder};

use super::counters::Histogram;

/// The labels of a series.
#[derive(Debug, Clone)]
pub(super) struct Labels(Vec<(String, String)>);

impl Labels {
    pub(super) fn new(labels: &[(&str, &str)]) -> Self {
        Self(labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    /// The same with one more.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut labels = self.0.clone();
        labels.push((name.to_owned(), value.to_owned()));
        Self(labels)
    }

    fn metric(self) -> Metric {
        let pairs = self.0.into_iter().map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name(name);
            pair.set_value(value);
            pair
        });
        Metric::from_label(pairs.collect())
    }
}

/// Families of metrics on their way out.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    families: Vec<MetricFamily>,
}

impl Exposition {
    fn add(&mut self, name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) {
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.families.push(family);
    }

    pub(super) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (Labels, f64)>,
    ) {
        let metrics = series.map(|(labels, value)| {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            let mut metric = labels.metric();
            metric.set_gauge(gauge);
            metric
        });
        self.add(name, help, MetricType::GAUGE, metrics.collect());
    }

    /// A counter, whose name ends with `_total` as it goes out.
    pub(super) fn counter(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (Labels, u64)>,
    ) {
        let metrics = series.map(|(labels, value)| {
            let mut counter = Counter::default();
            counter.set_value(value as f64);
            let mut metric = labels.metric();
            metric.set_counter(counter);
            metric
        });
        self.add(&format!("{name}_total"), help, MetricType::COUNTER, metrics.collect());
    }

    pub(super) fn histogram<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (Labels, &'a Histogram)>,
    ) {
        let metrics = series.map(|(labels, of)| {
            let mut below = 0;
            let buckets = of.bounds.iter().zip(&of.counts).map(|(bound, count)| {
                below += count;
                let mut bucket = Bucket::default();
                bucket.set_cumulative_count(below);
                bucket.set_upper_bound(*bound);
                bucket
            });
            let mut histogram = ProtoHistogram::default();
            histogram.set_bucket(buckets.collect());
            histogram.set_sample_count(of.counts.iter().sum());
            histogram.set_sample_sum(of.sum);
            let mut metric = labels.metric();
            metric.set_histogram(histogram);
            metric
        });
        self.add(name, help, MetricType::HISTOGRAM, metrics.collect());
    }

    /// All of it.
    pub(super) fn text(&self) -> String {
        let mut out = Vec::new();
        // Only a family without metrics is refused, and a writer that fails.
        let encoded = TextEncoder::new().encode(&self.families, &mut out);
        debug_assert!(encoded.is_ok(), "{encoded:?}");
        let text = String::from_utf8(out).unwrap_or_default();
        text.split('\n').map(with_bound).collect::<Vec<_>>().join("\n")
    }
}

/// A line, with the bound of its bucket, if it is one, as servers in Python write it.
fn with_bound(line: &str) -> Cow<'_, str> {
    const LABEL: &str = "le=\"";
    if line.starts_with('#') || !line.contains("_bucket{") {
        return Cow::Borrowed(line);
    }
    let anew = || {
        // It is the last label.
        let from = line.rfind(LABEL)? + LABEL.len();
        let to = from + line[from..].find('"')?;
        let bound = line[from..to].parse::<f64>().ok().filter(|it| it.is_finite())?;
        Some(format!("{}{}{}", &line[..from], python_float(bound), &line[to..]))
    };
    anew().map_or(Cow::Borrowed(line), Cow::Owned)
}

/// A bound as it is in the series' name (`prometheus_client` 0.26, `utils.py`, `floatToGoString`), for bounds
/// from 0.0001 on.
fn python_float(bound: f64) -> String {
    if bound < 1e6 {
        return format!("{bound:?}");
    }
    let short = format!("{bound:e}");
    let (mantissa, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    format!("{mantissa}e+{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_as_python_does() {
        // What `floatToGoString` gives for each.
        let bounds = [
            (0.0, "0.0"),
            (0.001, "0.001"),
            (0.15, "0.15"),
            (1.0, "1.0"),
            (12_500.0, "12500.0"),
            (500_000.0, "500000.0"),
            (1e6, "1e+06"),
            (1.1e6, "1.1e+06"),
            (5e7, "5e+07"),
            (1e8, "1e+08"),
        ];
        for (bound, written) in bounds {
            assert_eq!(python_float(bound), written);
        }
    }

    #[test]
    fn only_bounds_of_buckets_are_written_anew() {
        let sample = |line| with_bound(line).into_owned();
        assert_eq!(
            sample(r#"a_bucket{model_name="x",le="2000"} 7"#),
            r#"a_bucket{model_name="x",le="2000.0"} 7"#
        );
        for same in [r#"a_bucket{le="+Inf"} 7"#, r#"a{title="5"} 7"#, r#"# HELP a le="1""#, "a 1"] {
            assert_eq!(sample(same), same);
        }
    }
}
