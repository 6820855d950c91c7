//! Faults that are told to a server while it serves.

use serde_json::json;

use super::{SCENARIO, Server};

#[test]
fn faults_that_no_scenario_may_have_are_refused() {
    let server = Server::start(SCENARIO, &["--no-files", "--speed", "50"]);
    let refused = [
        (json!({"type": "crash", "replica": 0, "down_s": 0}), "down_s"),
        (json!({"type": "crash", "replica": 0, "down_s": 1e-308}), "down_s"),
        (json!({"type": "crash", "replica": 0, "down_s": 2e9}), "down_s"),
        (json!({"type": "crash", "replica": 0, "down_s": 1, "detection_s": 2}), "detection_s"),
        (json!({"type": "crash", "replica": 0, "at_s": -1, "down_s": 1}), "at_s"),
        (json!({"type": "crash", "replica": 1, "down_s": 1}), "replica"),
        (json!({"type": "straggler", "replica": 0, "for_s": 0, "factor": 2}), "for_s"),
        (json!({"type": "straggler", "replica": 0, "for_s": 1, "factor": 0.5}), "factor"),
        (json!({"type": "straggler", "replica": 0, "for_s": 1, "factor": 1e308}), "factor"),
        (json!({"type": "slow_link", "replica": 0, "for_s": 1, "share": 0.5}), "type"),
        (json!({"type": "lost_transfers", "replica": 0}), "type"),
    ];
    for (fault, field) in refused {
        let (status, error) = server.json("POST", "/servecast/faults", &fault);
        assert_eq!((status, error["error"]["param"].as_str()), (400, Some(field)), "{fault}");
    }
    // None of them has happened.
    server.post("/v1/completions", &json!({"prompt": "abcd", "max_tokens": 3}));
}

#[test]
fn a_link_that_is_slow_carries_something() {
    let parts = "host = 'none'\ndisaggregation = { prefill_replicas = 1, decode_replicas = 1, \
                 transfer = { nic_gb_per_s = 50.0 } }";
    let scenario = SCENARIO.replace("host = 'none'", parts);
    let server = Server::start(&scenario, &["--no-files", "--speed", "50"]);
    for share in [0.0, 1e-300, 1e-11, -0.5, 1.5] {
        let slow = json!({"type": "slow_link", "replica": 1, "for_s": 1.0, "share": share});
        let (status, error) = server.json("POST", "/servecast/faults", &slow);
        assert_eq!((status, error["error"]["param"].as_str()), (400, Some("share")), "{slow}");
    }
    let slow = json!({"type": "slow_link", "replica": 1, "for_s": 1.0, "share": 0.01});
    server.post("/servecast/faults", &slow);
    server.post("/servecast/faults", &json!({"type": "lost_transfers", "replica": 1}));
    server.post("/v1/completions", &json!({"prompt": "abcd", "max_tokens": 3}));
}
