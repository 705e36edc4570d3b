//! `/metrics`, `/healthz` and `/readyz`.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info};

use super::ProcessError;
use crate::Services;

/// Serves until the handle is dropped. Before this returns, the address is listened on.
pub(super) async fn serve(
    address: SocketAddr,
    services: Services,
) -> Result<AbortOnDropHandle<()>, ProcessError> {
    let failed = |source| ProcessError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    info!(address = %bound, "serving metrics and health");
    let router = router(services);
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            error!(%error, "metrics and health are no longer served");
        }
    })))
}

fn router(services: Services) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(services)
}

async fn metrics(State(services): State<Services>) -> Response {
    match services.metrics.encode() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn healthz(State(services): State<Services>) -> Response {
    verdict(services.health.alive())
}

async fn readyz(State(services): State<Services>) -> Response {
    verdict(services.health.ready())
}

fn verdict(well: Result<(), String>) -> Response {
    match well {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

#[cfg(all(test, feature = "memory-api"))]
mod tests {
    use super::*;
    use crate::memory_api::MemoryApi;

    #[tokio::test]
    async fn it_tells_what_is_wrong() {
        let services = Services::new(MemoryApi::new(1).admin(), "test", "test");
        let part = services.health.part("pool");
        let state = || State(services.clone());
        assert_eq!(readyz(state()).await.status(), StatusCode::SERVICE_UNAVAILABLE);
        part.ready();
        assert_eq!(readyz(state()).await.status(), StatusCode::OK);
        part.alive_for(std::time::Duration::ZERO);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        assert_eq!(healthz(state()).await.status(), StatusCode::SERVICE_UNAVAILABLE);
        let metrics = metrics(state()).await;
        let kind = metrics.headers().get(header::CONTENT_TYPE).unwrap();
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    }
}
