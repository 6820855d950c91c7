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

#[test]
fn a_replica_has_one_fault_of_a_kind_at_a_time() {
    let crash = "\n[[faults]]\ntype = 'crash'\nreplica = 0\nat_s = 1e6\ndown_s = 100.0\n";
    let server = Server::start(&format!("{SCENARIO}{crash}"), &["--no-files", "--speed", "10"]);
    let tell = |fault: &serde_json::Value| server.json("POST", "/servecast/faults", fault);
    let (status, first) = tell(&json!({"type": "crash", "replica": 0, "down_s": 10.0}));
    assert_eq!(status, 200, "{first}");
    assert!(first["fault"]["at_s"].as_f64() > Some(0.0), "it says when: {first}");
    let second = json!({"type": "crash", "replica": 0, "down_s": 1.0});
    let (status, error) = tell(&second);
    let message = error["error"]["message"].as_str().expect("a message");
    assert_eq!((status, message.contains("overlaps with the crash of replica 0")), (409, true));
    // Neither has the second one happened, nor has its end ended the first.
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert_eq!(server.text("GET", "/health", "").0, 503);
    let planned = json!({"type": "crash", "replica": 0, "at_s": 1e6 - 1.0, "down_s": 10.0});
    assert_eq!(tell(&planned).0, 409, "the scenario has one then");
    assert_eq!(tell(&json!({"type": "lost_cache", "replica": 0})).0, 200);
    std::thread::sleep(std::time::Duration::from_millis(900));
    assert_eq!(server.text("GET", "/health", "").0, 200);
    assert_eq!(tell(&second).0, 200);
}

#[test]
fn a_replica_that_an_autoscaler_has_off_is_not_up() {
    let scaled = "host = 'none'\nreplicas = 3\nautoscaler = { min_replicas = 1, max_replicas = 3, \
                  signal = { type = 'kv_usage', target = 0.5 }, provisioning_s = 20.0, \
                  weights_gib_per_s = 2.0 }";
    let scenario = SCENARIO.replace("host = 'none'", scaled);
    let server = Server::start(&scenario, &["--no-files"]);
    let (_, metrics) = server.text("GET", "/metrics", "");
    let is_up = |replica: u32| {
        super::metric(&metrics, &format!("servecast_replica_up{{replica=\"{replica}\"}}"))
    };
    assert_eq!([0, 1, 2].map(is_up), [1, 0, 0]);
}
