// The peer's services: a chain of three durable steps on Restate, inside one handler or as calls to another service.
//   node restate-services.mjs
// Prints one line of JSON with its port, and ends with its input. The Restate server has to be told of it.
import { createServer } from "node:http2";
import { createEndpointHandler, service } from "@restatedev/restate-sdk";

const STEPS = ["fetch", "summarise", "deliver"];

/** As a worker of ours does it: takes an object and gives one. */
const perform = (step, data) => ({ ...data, [step]: "done" });

const worker = service({
  name: "worker",
  handlers: Object.fromEntries(STEPS.map((step) => [step, async (_context, data) => perform(step, data)])),
});

const chain = service({
  name: "chain",
  handlers: {
    async inside(context, data) {
      let result = data;
      for (const step of STEPS) {
        const input = result;
        result = await context.run(step, () => perform(step, input));
      }
      return result;
    },
    async calls(context, data) {
      let result = data;
      for (const step of STEPS) result = await context.serviceClient(worker)[step](result);
      return result;
    },
  },
});

const logger = ({ level }, ...words) => {
  if (level === "error") console.error(...words);
};
const server = createServer(createEndpointHandler({ services: [chain, worker], logger }));
server.listen({ host: "127.0.0.1", port: 0 }, () =>
  console.log(JSON.stringify({ port: server.address().port })),
);
process.stdin.on("end", () => process.exit(0)).resume();
