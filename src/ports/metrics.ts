// Where the flows count and measure; typed from the table in src/metrics.ts, so a wrong label does not compile.
import type { CounterName, GaugeName, HistogramName, LabelsOf } from "../metrics.ts";

export type Metrics = {
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>): void;
  observe<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, value: number): void;
  set<Name extends GaugeName>(name: Name, labels: LabelsOf<Name>, value: number): void;
};
