// A worker that pays, in a process of its own: main.ts starts it twice, and the first one freezes.
import { JobFailed, stopOnSignals, worker } from "interlock/sdk";

const [name, mode] = process.argv.slice(2);

const running = worker({
  // The server and the key come from INTERLOCK_URL and INTERLOCK_API_KEY.
  name,
  leaseMs: 1_000, // so that the example is quick; 30 s unless you say otherwise
  topics: {
    "orders.pay": async (job) => {
      console.log(`attempt ${job.attempt}: about to pay`);
      const headers = job.headers(); // throws if the job is no longer ours: at this moment it is

      // A suspended machine, a starved container, a long stop of the garbage collector: no check can come after the last check.
      if (mode === "freeze") process.kill(process.pid, "SIGSTOP");

      const answer = await fetch(`${process.env.PAYMENT_URL}/payments`, {
        method: "POST",
        // The fence refuses an attempt that was overtaken. The idempotency key, the same for every attempt, is for the other
        // case: an attempt that has paid and died before it could say so.
        headers: {
          ...headers,
          "Content-Type": "application/json",
          "Idempotency-Key": job.idempotencyKey,
        },
        body: JSON.stringify(job.input),
      });
      console.log(`attempt ${job.attempt}: the payment service answers ${answer.status}`);
      if (!answer.ok) throw new JobFailed(`the payment service answers ${answer.status}`);
      return answer.json();
    },
  },
  onTrouble: (trouble) => console.log(trouble.kind),
});
console.log("waits for jobs");
void stopOnSignals(running);
await running.finished;
