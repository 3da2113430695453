// Every drill against an embedded instance of its own.
import { describeEveryDrill } from "./every-drill.ts";

describeEveryDrill("embedded");
