//! Connections: who may come in, how large and how slow they may be, and which path is whose.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::Version;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_io_timeout::TimeoutStream;
use tower::{Service, ServiceExt};

use super::app::App;
use super::error::{ApiError, Voice};
use super::stalled::{Line, Watched};
use super::{control, generate, openai, sglang, tokenize, vllm};

/// HTTP/2 streams of one connection at once.
const STREAMS: u32 = 4096;
/// What HTTP/2 begins with, and no other version.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// All paths.
fn routes(app: &Arc<App>) -> Router {
    let open = Router::new()
        .route("/health", get(control::health))
        .route("/ping", get(control::health).post(control::health))
        .route("/health_generate", get(control::health))
        .route("/metrics", get(control::metrics));
    let guarded = Router::new()
        .route("/v1/completions", post(openai::completions))
        .route("/v1/chat/completions", post(openai::chat_completions))
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{*name}", get(openai::model))
        .route("/version", get(vllm::version))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/load", get(vllm::load))
        .route("/reset_prefix_cache", post(vllm::reset_prefix_cache))
        .route("/v1/load_lora_adapter", post(vllm::load_adapter))
        .route("/v1/unload_lora_adapter", post(vllm::unload_adapter))
        .route("/generate", post(generate::generate).put(generate::generate))
        .route("/get_model_info", get(sglang::model_info))
        .route("/model_info", get(sglang::model_info))
        .route("/get_server_info", get(sglang::server_info))
        .route("/server_info", get(sglang::server_info))
        .route("/get_load", get(sglang::load))
        .route("/flush_cache", get(sglang::flush_cache).post(sglang::flush_cache))
        .route("/abort_request", post(sglang::abort_request))
        .route("/servecast/faults", post(control::faults))
        .route("/servecast/speed", get(control::speed).post(control::set_speed))
        .route("/servecast/report", get(control::report))
        .layer(middleware::from_fn_with_state(app.clone(), guard));
    let all = open.merge(guarded).fallback(missing);
    all.layer(middleware::from_fn_with_state(app.clone(), say)).with_state(app.clone())
}

async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match app.admits(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Errors are said as the server that is simulated says them.
async fn say(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let voice = Voice::of(app.dialect, request.uri().path());
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<ApiError>() {
        Some(error) => error.said(voice),
        None => response,
    }
}

async fn missing(request: Request) -> ApiError {
    ApiError::unknown(format!("{} {} is not served", request.method(), request.uri().path()))
}

/// A port that is open.
#[derive(Debug)]
pub(super) struct Listening {
    listener: TcpListener,
    pub(super) address: SocketAddr,
}

impl Listening {
    pub(super) async fn at(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Serves until `closing` is over, and then those who are being served, for a while.
    pub(super) async fn serve(self, app: Arc<App>, closing: impl Future<Output = ()>) {
        let routes = routes(&app);
        let limits = app.limits;
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            // An event of a stream is short: to copy it takes less than to write it in three pieces.
            .writev(false)
            .header_read_timeout(limits.header_time)
            .max_buf_size(limits.header_bytes.max(8192));
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(limits.header_bytes as u32)
            .max_send_buf_size(64 << 10)
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(limits.write_time);
        let places = app.connections.clone();
        let graceful = GracefulShutdown::new();
        let (serving, served) = watch::channel(());
        let mut closing = std::pin::pin!(closing);
        loop {
            let accepted = async {
                let place = places.clone().acquire_owned().await;
                (place, self.listener.accept().await)
            };
            let accepted = tokio::select! {
                accepted = accepted => accepted,
                () = &mut closing => break,
            };
            let (Ok(place), Ok((stream, _))) = accepted else {
                // Out of files, or a client that was gone at once.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let (http, line) = (http.clone(), Line::new());
            let service = TowerToHyperService::new(watched(&routes, &line, limits.write_time));
            let (watcher, mut served) = (graceful.watcher(), served.clone());
            tokio::spawn(async move {
                let begun = tokio::select! {
                    begun = tokio::time::timeout(limits.header_time, begun(stream)) => begun,
                    _ = served.changed() => return,
                };
                // A client that says nothing is no news.
                let Ok(Ok(stream)) = begun else { return };
                let io = TokioIo::new(bounded(stream, limits.write_time));
                let connection = http.serve_connection(io, service).into_owned();
                tokio::select! {
                    // Nor is one that breaks off.
                    _ = watcher.watch(connection) => {}
                    () = line.stalled() => {}
                }
                drop(place);
            });
        }
        drop(serving);
        drop(self.listener);
        // Streams have been told that they end.
        let end = graceful.shutdown();
        drop(tokio::time::timeout(Duration::from_secs(5), end).await);
    }
}

/// All paths for a connection, on which responses must be read within so long.
fn watched(
    routes: &Router,
    line: &Arc<Line>,
    write_time: Duration,
) -> impl Service<
    hyper::Request<Incoming>,
    Response = Response,
    Error = Infallible,
    Future: Send + 'static,
> + Clone
+ Send
+ use<> {
    let (routes, line) = (routes.clone(), line.clone());
    tower::service_fn(move |request: hyper::Request<Incoming>| {
        let (routes, line) = (routes.clone(), line.clone());
        async move {
            let may_stand_still = request.version() == Version::HTTP_2;
            let response = routes.oneshot(request).await?;
            if !may_stand_still || response.body().is_end_stream() {
                return Ok(response);
            }
            Ok(response.map(|body| Body::new(Watched::new(body, line, write_time))))
        }
    })
}

/// A connection whose client has said which version of HTTP it speaks: what tells them apart waits for ever.
async fn begun(mut stream: TcpStream) -> io::Result<impl AsyncRead + AsyncWrite> {
    // Tokens are small and go out at once.
    drop(stream.set_nodelay(true));
    let mut first = Vec::with_capacity(PREFACE.len());
    while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
        let left = PREFACE.len() - first.len();
        if (&mut stream).take(left as u64).read_buf(&mut first).await? == 0 {
            break;
        }
    }
    let (read, write) = stream.into_split();
    Ok(join(Cursor::new(first).chain(read), write))
}

/// A connection on which what is sent must be read within so long.
fn bounded<S: AsyncRead + AsyncWrite>(
    stream: S,
    write_time: Duration,
) -> std::pin::Pin<Box<TimeoutStream<S>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(write_time));
    Box::pin(stream)
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    const WRITE_TIME: Duration = Duration::from_millis(300);

    /// A client of HTTP/2 that lets nothing come, asks, and answers nothing.
    async fn closed_window(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
            [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream], payload].concat()
        };
        // SETTINGS_INITIAL_WINDOW_SIZE is 0; GET, http and / as HPACK's table has them.
        let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
        let ask = frame(1, 5, 1, &[0x82, 0x86, 0x84, 0x01, 0x01, b'a']);
        stream.write_all(&[PREFACE, &settings, &ask].concat()).await.expect("it is sent");
        stream
    }

    #[test]
    fn a_client_of_http_2_that_lets_nothing_come_is_cut_off() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let held = Arc::new(());
            let holds = held.clone();
            let routes = Router::new().route(
                "/",
                get(move || {
                    let held = holds.clone();
                    async move {
                        let part = futures_util::stream::repeat(vec![b'x'; 999]);
                        Body::from_stream(part.map(move |part| {
                            std::hint::black_box(&held);
                            Ok::<_, io::Error>(part)
                        }))
                    }
                }),
            );
            let Listening { listener, address } =
                Listening::at(([127, 0, 0, 1], 0).into()).await.expect("a port");
            let served = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.expect("a client");
                let line = Line::new();
                let service = TowerToHyperService::new(watched(&routes, &line, WRITE_TIME));
                let http = auto::Builder::new(TokioExecutor::new());
                let connection = http.serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    _ = connection => false,
                    () = line.stalled() => true,
                }
            });
            let mut client = closed_window(address).await;
            let closed = tokio::time::timeout(20 * WRITE_TIME, served).await;
            assert!(closed.expect("it does not wait for ever").expect("no panic"));
            let mut said = Vec::new();
            drop(client.read_to_end(&mut said).await);
            // Neither the route nor the body of an answer is left.
            assert_eq!(Arc::strong_count(&held), 1);
        });
    }
}
