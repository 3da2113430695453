// Every drill against Redis and NATS servers of its own.
import { describeEveryDrill } from "./every-drill.ts";

describeEveryDrill("cluster");
