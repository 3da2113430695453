"""A worker over NATS in any language looks like this: Python 3.9 or later, and its standard library alone.

  INTERLOCK_API_KEY=ilk_... python3 examples/10-bus-worker.py nats://user:password@127.0.0.1:4222 demo.hello

It greets: the input {"name": "Ada"} gives the output {"text": "Hello, Ada!"}. SIGTERM ends it after the jobs it has.
docs/guide/bus-protocol.md says what is sent. A lost connection ends the program: a supervisor starts it again."""
import base64, hashlib, hmac, json, os, queue, re, signal, socket, sys, threading, time, uuid
import concurrent.futures as futures, urllib.parse as addresses

def token(text):  # one part of a subject
    return re.sub(rb"[^A-Za-z0-9_:@-]", lambda found: b"=%02X" % found[0][0], text.encode()).decode()

url, topic, worker_id = addresses.urlsplit(sys.argv[1]), sys.argv[2], f"python-{os.getpid()}"
key_id, secret, _ = os.environ["INTERLOCK_API_KEY"][len("ilk_"):].rsplit("_", 2)
signing_key = hashlib.sha256(secret.encode()).hexdigest().encode()
prefix, tenant, key_name = os.environ.get("INTERLOCK_PREFIX", "interlock"), *key_id.rsplit(".", 1)
inbox = f"{prefix}.answers.{token(tenant)}.{key_name}.{uuid.uuid4().hex}"  # all answers arrive below it
answers, held = {}, {}  # a queue for each subject at which somebody waits; the jobs whose claims are kept
stopping, sending = threading.Event(), threading.Lock()
log = lambda *words: print(*words, file=sys.stderr, flush=True)
nats = socket.create_connection((url.hostname, url.port or 4222), timeout=300)  # the server pings every two minutes
lines = nats.makefile("rb")
lines.readline()  # INFO; a client that wants TLS would begin with it here
login = {"user": addresses.unquote(url.username), "pass": addresses.unquote(url.password)} if url.password else {}
options = {"verbose": False, "headers": True, "lang": "python", "version": "1", **login}
nats.sendall(f"CONNECT {json.dumps(options)}\r\nSUB {inbox}.> 1\r\n".encode())

def signature(subject, message_id, expires, body):
    text = json.dumps([subject, message_id, expires], separators=(",", ":")).encode() + b"\n" + body
    return base64.urlsafe_b64encode(hmac.new(signing_key, text, hashlib.sha256).digest()).rstrip(b"=").decode()

def publish(subject, reply_to, value, life_ms, more={}):
    body, expires = json.dumps(value).encode(), int(time.time() * 1000) + life_ms
    fields = {"Interlock-Protocol": 1, "Interlock-Key": key_id, "Interlock-Expires": expires,
              "Interlock-Signature": signature(subject, "", expires, body), **more}
    head = "NATS/1.0\r\n" + "".join(f"{name}: {text}\r\n" for name, text in fields.items()) + "\r\n"
    line = f"HPUB {subject} {reply_to} {len(head)} {len(head) + len(body)}\r\n"
    with sending:
        nats.sendall((line + head).encode() + body + b"\r\n")

def read():  # gives each answer to the one who waits; what the control plane has not signed counts as not heard
    for line in lines:
        command, *words = line.decode().split()
        if command == "PING":
            with sending:
                nats.sendall(b"PONG\r\n")
        elif command == "-ERR":
            log("NATS:", *words)
        elif command in ("MSG", "HMSG"):
            subject, head_bytes = words[0], int(words[-2]) if command == "HMSG" else 0
            data = lines.read(int(words[-1]) + 2)[:-2]
            body, rows = data[head_bytes:], data[:head_bytes].decode().split("\r\n")
            fields = dict(row.split(": ", 1) for row in rows if ": " in row)
            expires, given = fields.get("Interlock-Expires", ""), fields.get("Interlock-Signature", "")
            expires = int(expires) if expires.isdecimal() else 0
            signed = hmac.compare_digest(given.encode(), signature(subject, "", expires, body).encode())
            if signed and expires >= time.time() * 1000 and subject in answers:
                answers[subject].put(json.loads(body))
    log("the connection to NATS was lost")
    os._exit(1)

def listen():
    answers[subject := f"{inbox}.{uuid.uuid4().hex}"] = queue.Queue()
    return subject

def ask(request, value, patience_s):  # the items of the answer, maybe from several messages; or None
    subject, items = listen(), []
    publish(f"{prefix}.requests.{token(tenant)}.{request}", subject, value, 30_000)
    try:
        while True:
            answer = answers[subject].get(timeout=patience_s)
            if answer["status"] != 200:
                return log(request, answer)
            items += answer["body"].get("jobs") or answer["body"].get("results") or []
            if not answer.get("more"):
                return items
    except queue.Empty:
        return log(request, "was not answered")
    finally:
        del answers[subject]

def keep_claims():
    while True:
        time.sleep(min([job["lease_ms"] for job in [*held.values()]], default=1_000) / 3_000)
        beats = [{"job_id": job["job_id"], "claim_token": job["claim_token"]} for job in [*held.values()]]
        for beat in beats and ask("heartbeat", {"worker_id": worker_id, "jobs": beats}, 5) or []:
            if beat["kind"] == "lost" or beat.get("stop"):  # another worker has it, or nobody wants it any more
                held.pop(beat["job_id"], None)

def perform(job):
    result = {"job_id": job["job_id"], "claim_token": job["claim_token"]}
    try:
        result.update(status="succeeded", output={"text": f"Hello, {job['input']['name']}!"})
    except Exception as error:
        result.update(status="failed", error={"message": repr(error)})
    results, subject = f"{prefix}.results.{token(tenant)}.{token(job['job_id'])}", listen()
    while job["job_id"] in held:  # the claim is kept until the last word
        body, answer = {"worker_id": worker_id, **result}, {"kind": "waiting"}
        publish(results, f"{inbox}.stored", body, 86_400_000, {"Interlock-Answer-To": subject})
        try:
            while answer["kind"] == "waiting":  # the run is busy: the bus delivers the result again by itself
                answer = answers[subject].get(timeout=5 + answer.get("retry_after_ms", 0) / 1000)
        except queue.Empty:  # it is lost, or the stream takes nothing: a gateway takes it, too, and the store once
            answer = (ask("report", {"worker_id": worker_id, "results": [result]}, 5) or [answer])[0]
        if answer["kind"] in ("accepted", "duplicate", "refused"):
            held.pop(job["job_id"], None)
            print(job["job_id"], answer["kind"], answer.get("because", ""), flush=True)
    del answers[subject]

signal.signal(signal.SIGTERM, lambda *_: stopping.set())
for task in (read, keep_claims):
    threading.Thread(target=task, daemon=True).start()
poll = {"worker_id": worker_id, "topics": [topic], "max_jobs": 10, "wait_ms": 5_000}
with futures.ThreadPoolExecutor(10) as pool:
    while not stopping.is_set():
        poll["poll_id"] = uuid.uuid4().hex
        while (jobs := ask("poll", poll, 5 + 2)) is None and not stopping.wait(1):
            pass  # again with the same poll_id: it gets the same jobs
        held.update({job["job_id"]: job for job in jobs or []})
        list(pool.map(perform, jobs or []))
