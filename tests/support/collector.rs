//! A collector of OpenTelemetry: receives data by OTLP over HTTP, stores it, and responds as a test specifies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Maximum time until data arrives; no test needs a tenth of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Responses of a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// With that status.
    With(u16),
    /// No response: it reads, and leaves the connection open.
    Never,
}

/// Received data.
#[derive(Debug, Default)]
pub struct Received {
    /// Spans, in the order of their ends.
    pub spans: Vec<Span>,
    /// The last page of series.
    pub metrics: Vec<Metric>,
    /// Number of requests with series.
    pub pages: usize,
    /// Resource attributes of senders: `key=value`.
    pub resources: Vec<String>,
    /// Every byte: heads and bodies.
    pub bytes: Vec<u8>,
}

impl Received {
    /// The spans of that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    /// True if any received data contains that text.
    #[must_use]
    pub fn holds(&self, text: &str) -> bool {
        self.bytes.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes()))
    }
}

/// The text of an attribute, numbers included.
#[must_use]
pub fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    }
}

/// Number of points of a metric.
#[must_use]
pub fn points(metric: &Metric) -> usize {
    match &metric.data {
        Some(metric::Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(metric::Data::Sum(sum)) => sum.data_points.len(),
        Some(metric::Data::Histogram(histogram)) => histogram.data_points.len(),
        _ => 0,
    }
}

type Shared = Arc<(Mutex<Received>, Condvar)>;

/// A collector that runs as long as the test.
#[derive(Debug)]
pub struct Collector {
    received: Shared,
    responses: Arc<Mutex<Answers>>,
    /// Its URL.
    pub url: String,
}

impl Collector {
    /// A collector that accepts everything.
    #[must_use]
    pub fn start() -> Self {
        Self::answering(Answers::With(200))
    }

    /// A collector that responds as given.
    #[must_use]
    pub fn answering(responses: Answers) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port can be had");
        let url = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let (received, responses): (Shared, _) = (Arc::default(), Arc::new(Mutex::new(responses)));
        let (stored, how) = (Arc::clone(&received), Arc::clone(&responses));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (stored, how) = (Arc::clone(&stored), Arc::clone(&how));
                std::thread::spawn(move || speak(stream, &stored, &how));
            }
        });
        Self { received, responses, url }
    }

    /// Changes the responses from now on.
    pub fn response(&self, responses: Answers) {
        *self.responses.lock().unwrap_or_else(PoisonError::into_inner) = responses;
    }

    /// Waits until the received data is as wanted, and reads it.
    ///
    /// # Panics
    /// If it does not become so in time.
    pub fn wait<R>(&self, what: &str, wanted: impl Fn(&Received) -> bool, look: impl FnOnce(&Received) -> R) -> R {
        let (received, changed) = &*self.received;
        let received = received.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(received, PATIENCE, |received| !wanted(received));
        let (received, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{what} did not arrive: {:?}", received.spans);
        look(&received)
    }

    /// Reads the data received so far.
    pub fn look<R>(&self, look: impl FnOnce(&Received) -> R) -> R {
        look(&self.received.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves one connection.
fn speak(stream: TcpStream, stored: &Shared, how: &Mutex<Answers>) {
    let Ok(mut writing) = stream.try_clone() else { return };
    let mut reading = BufReader::new(stream);
    while let Some((head, body)) = request(&mut reading) {
        let responses = *how.lock().unwrap_or_else(PoisonError::into_inner);
        if responses == Answers::With(200) {
            take(&head, &body, stored);
        }
        match responses {
            Answers::With(status) => {
                let response = format!("HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n");
                if writing.write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
            Answers::Never => {
                // Until the client has disconnected.
                let _is_gone = reading.read_to_end(&mut Vec::new());
                return;
            }
        }
    }
}

fn request(reading: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reading.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    parsed.parse(head.as_bytes()).ok()?;
    let length = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok())?;
    let mut body = vec![0; length];
    reading.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn take(head: &str, body: &[u8], (received, changed): &(Mutex<Received>, Condvar)) {
    let lower = head.to_ascii_lowercase();
    assert!(lower.contains("content-type: application/x-protobuf"), "{head}");
    let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
    received.bytes.extend_from_slice(head.as_bytes());
    received.bytes.extend_from_slice(body);
    let mut resources = Vec::new();
    if head.starts_with("POST /v1/traces ") {
        let message = ExportTraceServiceRequest::decode(body).expect("a request with spans");
        for of in message.resource_spans {
            resources.push(of.resource);
            received.spans.extend(of.scope_spans.into_iter().flat_map(|of| of.spans));
        }
    } else {
        assert!(head.starts_with("POST /v1/metrics "), "{head}");
        let message = ExportMetricsServiceRequest::decode(body).expect("a request with series");
        received.pages += 1;
        received.metrics.clear();
        for of in message.resource_metrics {
            resources.push(of.resource);
            received.metrics.extend(of.scope_metrics.into_iter().flat_map(|of| of.metrics));
        }
    }
    for attribute in resources.into_iter().flatten().flat_map(|resource| resource.attributes) {
        let text = self::attribute(std::slice::from_ref(&attribute), &attribute.key).unwrap_or_default();
        received.resources.push(format!("{}={text}", attribute.key));
    }
    changed.notify_all();
}
