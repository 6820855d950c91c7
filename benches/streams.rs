//! How well `servecast serve` keeps time with many streams at once:
//! `cargo bench --bench streams [-- STREAMS [SPEED…]]`, 2,000 streams at speeds 1, 2, 4, 8 if nothing is given.
//!
//! Eight replicas of Llama-3.1-70B on four H100 each are served by the binary, and a client in this process opens the
//! streams within two seconds, on the same machine. For each speed it prints what the server says of its lateness (from the simulated
//! instant of a token to the write of its chunk), how many tokens a second came, and the memory of the server.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measures")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SCENARIO: &str = "name = 'streams'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-70B'\n\
                        gpu = 'H100-SXM5-80GB'\ntensor_parallel_size = 4\nreplicas = 8\nhost = 'none'\n\
                        [cluster.engine]\ntype = 'vllm_v1'\nmax_num_seqs = 256\n[workload]\nnum_requests = 1\n\
                        arrivals.type = 'poisson'\narrivals.rate_per_s = 1.0\nlengths.type = 'fixed'\n\
                        lengths.input_tokens = 100\nlengths.output_tokens = 100\n";

/// Tokens of each answer.
const TOKENS: u32 = 500;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Server {
    /// Starts it, and says where it listens.
    fn start(speed: &str) -> (Self, SocketAddr) {
        let folder = std::env::temp_dir().join("servecast-streams");
        std::fs::create_dir_all(&folder).expect("a folder");
        let scenario = folder.join("scenario.toml");
        std::fs::write(&scenario, SCENARIO).expect("it is written");
        let mut process = Command::new(env!("CARGO_BIN_EXE_servecast"))
            .arg("serve")
            .arg(&scenario)
            .args(["--port", "0", "--no-files", "--speed", speed])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(process.stderr.take().expect("it is piped")).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("at http://")?.1.split(' ').next()?.parse().ok());
        let address = address.expect("it says where it listens");
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| println!("  {line}"));
        });
        (Self(process), address)
    }

    /// Its resident memory in bytes.
    fn memory(&self) -> u64 {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.0.id()));
        let pages = pages.ok().and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        pages.unwrap_or(0) * 4096
    }
}

/// Reads one stream to its end; how many chunks it had.
async fn read(address: SocketAddr, number: usize) -> u64 {
    let words = "of a few words ".repeat(5 + mixed(number) % 50);
    let body = format!(
        r#"{{"prompt":"{number:06} a prompt {words}","max_tokens":{TOKENS},"stream":true}}"#
    );
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all((head + &body).as_bytes()).await.expect("it is sent");
    let (mut buffer, mut braces) = (vec![0; 4096], 0);
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return braces / 2,
            Ok(len) => {
                // An event is an object with one choice.
                braces += buffer[..len].iter().map(|byte| u64::from(*byte == b'{')).sum::<u64>();
            }
        }
    }
}

/// A number that looks drawn.
fn mixed(number: usize) -> usize {
    servecast::rng::mix(number as u64) as usize >> 1
}

async fn pace(address: SocketAddr) -> Value {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let head = "GET /servecast/speed HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).expect("it is JSON")
}

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let streams: usize =
        words.next().map_or(2000, |word| word.parse().expect("a number of streams"));
    let mut speeds: Vec<String> = words.collect();
    if speeds.is_empty() {
        speeds = ["1", "2", "4", "8"].map(String::from).into();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    println!("{streams} streams of {TOKENS} tokens");
    println!("speed  tokens/s  chunks/s  late: median ms    P99 ms    most ms  memory MiB");
    for speed in speeds {
        let (server, address) = Server::start(&speed);
        let began = Instant::now();
        let (chunks, memory) = runtime.block_on(async {
            let mut all = tokio::task::JoinSet::new();
            for number in 0..streams {
                // Not all at one instant, so that replicas do not step in time with each other.
                let wait = Duration::from_micros((mixed(number) % 2_000_000) as u64);
                all.spawn(async move {
                    tokio::time::sleep(wait).await;
                    read(address, number).await
                });
            }
            let (mut chunks, mut memory) = (0, 0);
            while let Some(ended) = all.join_next().await {
                chunks += ended.expect("it is read");
                memory = memory.max(server.memory());
            }
            (chunks, memory)
        });
        let seconds = began.elapsed().as_secs_f64();
        let pace = runtime.block_on(pace(address));
        let late = |name: &str| pace["lateness_ms"][name].as_f64().unwrap_or(f64::NAN);
        println!(
            "{speed:>5} {:>9.0} {:>9.0} {:>16.2} {:>9.2} {:>10.2} {:>11.0}",
            streams as f64 * f64::from(TOKENS) / seconds,
            chunks as f64 / seconds,
            late("median"),
            late("p99"),
            late("max"),
            memory as f64 / f64::from(1 << 20),
        );
    }
}
