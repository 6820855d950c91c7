//! Counters, gauges and distributions in the text format of Prometheus.

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
        String::from_utf8(out).unwrap_or_default()
    }
}
