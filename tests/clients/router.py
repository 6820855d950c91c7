#!/usr/bin/env python3
"""A real router in front of four simulated replicas, beside the routers of servecast on the same requests.

    python tests/clients/router.py --servecast target/release/servecast --router path/to/python [--policy cache_aware]

`--router` is a Python in which `pip install sglang-router` was done. The script serves scenarios/router-test.toml with a
port for each replica, puts the router in front of them, sends the requests of 64 groups that share a system prompt, ends the
servers, and runs what was asked (out/replay.toml) with routers of servecast. It prints the share of prompt tokens found
in caches and TTFT of each, and leaves the folders of results, of which `servecast report` makes pages with figures.
"""

import argparse
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = "time year people way day man thing woman life child world school state family student group country".split()


def free_port(count=1):
    """The first of so many ports in a row that are free."""
    while True:
        first = random.randrange(20_000, 60_000)
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()


def text(draw, tokens):
    """So many tokens of four bytes each."""
    return "".join(f"{draw.choice(WORDS)} " for _ in range(tokens))[: 4 * tokens]


def requests(groups, per_group, seed):
    """Prompts that share 2,048 tokens in each group, in random order."""
    draw = random.Random(seed)
    prompts = []
    for _ in range(groups):
        system = text(draw, 2048)
        prompts += [system + text(draw, 128) for _ in range(per_group)]
    draw.shuffle(prompts)
    return prompts


def send(port, prompt, failures):
    """Asks for 64 tokens and reads them all."""
    body = {"text": prompt, "stream": True, "sampling_params": {"max_new_tokens": 64, "ignore_eos": True}}
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("POST", "/generate", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200 or b"[DONE]" not in data:
            failures.append(f"{answer.status} {data[-200:]!r}")
    except OSError as error:
        failures.append(str(error))


def load(port, prompts, rate, seed):
    """Sends all prompts at Poisson times and waits for their answers."""
    draw, failures, threads = random.Random(seed), [], []
    due = time.monotonic()
    for prompt in prompts:
        due += draw.expovariate(rate)
        time.sleep(max(0.0, due - time.monotonic()))
        thread = threading.Thread(target=send, args=(port, prompt, failures))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    return failures


def wait_for(port, process, path="/health"):
    """Waits until a server says that it is well."""
    for _ in range(600):
        if process.poll() is not None:
            sys.exit(f"it ended with code {process.returncode} before it served")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"nothing serves at port {port}")


def figures(folder):
    """Mean and P99 of TTFT in ms, and the share of prompt tokens that came from caches."""
    summary = json.loads((folder / "summary.json").read_text())
    replicas = summary["cluster"]["replicas"]
    prompt = sum(replica["prompt_tokens"] for replica in replicas)
    cached = sum(replica["cached_tokens"] for replica in replicas)
    benchmark = summary["benchmark"]
    served = [replica["requests"] for replica in replicas]
    return cached / prompt * 100, benchmark["mean_ttft_ms"], benchmark["p99_ttft_ms"], served


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servecast", default="servecast", help="the binary")
    parser.add_argument("--router", default=sys.executable, help="a Python that has sglang-router")
    parser.add_argument("--policy", nargs="+", default=["cache_aware"], help="policies of the router")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds per second")
    parser.add_argument("--output", type=Path, default=Path("out/router"), help="folder for results")
    arguments = parser.parse_args()
    rows = []
    for policy in arguments.policy:
        folder = arguments.output / policy
        first = free_port(4)
        ports = range(first, first + 4)
        command = [arguments.servecast, "serve", ROOT / "scenarios/router-test.toml", "--port-per-replica"]
        command += ["--port", str(first), "--speed", str(arguments.speed), "--output-dir", folder, "--overwrite"]
        servers = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
        wait_for(first, servers)
        front, metrics = free_port(), free_port()
        command = [arguments.router, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(front)]
        command += ["--policy", policy, "--prometheus-port", str(metrics), "--log-level", "error", "--worker-urls"]
        router = subprocess.Popen(command + [f"http://127.0.0.1:{port}" for port in ports], stdout=subprocess.DEVNULL)
        try:
            wait_for(front, router)
            failures = load(front, requests(64, 8, seed=1), 16 * arguments.speed, seed=2)
        finally:
            router.terminate()
            servers.send_signal(signal.SIGINT)
            servers.wait()
            router.wait()
        if failures:
            sys.exit(f"{len(failures)} requests failed, first: {failures[0]}")
        rows.append((f"sglang-router {policy}", figures(folder)))
    for router in ["prefix_aware", "round_robin", "least_outstanding_requests"]:
        again = arguments.output / f"servecast-{router}"
        command = [arguments.servecast, "run", arguments.output / arguments.policy[0] / "replay.toml"]
        command += ["--set", f'cluster.router={{ type = "{router}" }}', "--output-dir", again, "--overwrite"]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        rows.append((f"servecast {router}", figures(again)))
    print(f"{'router':<38} {'cached %':>8} {'mean TTFT':>10} {'P99 TTFT':>9}  requests of each replica")
    for name, (cached, mean, p99, served) in rows:
        print(f"{name:<38} {cached:8.1f} {mean:10.1f} {p99:9.1f}  {' '.join(map(str, served))}")


if __name__ == "__main__":
    main()
