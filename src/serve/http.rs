//! Connections: who may come in, how large and how slow they may be, and which path is whose.

use std::future::Future;
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_io_timeout::TimeoutStream;

use super::app::App;
use super::error::ApiError;
use super::{control, openai, sglang, vllm};

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
        .route("/tokenize", post(vllm::tokenize))
        .route("/load", get(vllm::load))
        .route("/reset_prefix_cache", post(vllm::reset_prefix_cache))
        .route("/v1/load_lora_adapter", post(vllm::load_adapter))
        .route("/v1/unload_lora_adapter", post(vllm::unload_adapter))
        .route("/generate", post(sglang::generate).put(sglang::generate))
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
    open.merge(guarded).fallback(missing).with_state(app.clone())
}

async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match app.admits(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
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
            let (http, service) = (http.clone(), TowerToHyperService::new(routes.clone()));
            let (watcher, mut served) = (graceful.watcher(), served.clone());
            tokio::spawn(async move {
                let begun = tokio::select! {
                    begun = tokio::time::timeout(limits.header_time, begun(stream)) => begun,
                    _ = served.changed() => return,
                };
                // A client that breaks off, or says nothing, is no news.
                let Ok(Ok(stream)) = begun else { return };
                let io = TokioIo::new(bounded(stream, limits.write_time));
                let connection = http.serve_connection(io, service).into_owned();
                drop(watcher.watch(connection).await);
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
