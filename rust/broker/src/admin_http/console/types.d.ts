// What the admin API answers, as `openapi.json` says; for the type checker only.
interface Refusal { what: string; why: string; hint: string; }
interface RequestRow {
  number: number | null; api: string; version: number; client_id: string | null; peer: string;
  connection_id: number; age_ms: number; queue_ms: number; handler_ms: number | null;
  waited_ms: number | null; response_queue_ms: number | null; send_ms: number | null;
  total_ms: number | null; broker_id?: number;
}
interface StagePart { name: string; depth: number; }
interface Stage {
  name: string; depth: number | null; threads: number | null; busy: number | null;
  per_second: number; p50_ms: number | null; p99_ms: number | null; parts: StagePart[];
}
interface ApiRate { api: string; per_second: number; p50_ms: number | null; p99_ms: number | null; }
interface LiveEvent {
  broker_id: number; number: number; timestamp_ms: number; interval_ms: number;
  connections: number; requests_per_second: number; bytes_in_per_second: number;
  bytes_out_per_second: number; zero_copy_share: number | null; stages: Stage[];
  apis: ApiRate[]; requests: RequestRow[]; slow: RequestRow[]; figures_of?: { broker_id: number }[];
}
interface Field { bytes: number; encoding: "text" | "json" | "hex"; data: string; truncated: boolean; }
/** Figures of one series over time, as uPlot draws them. */
type Columns = [number[], ...(number | null)[][]];
declare class uPlot {
  constructor(options: object, data: Columns, parent: HTMLElement);
  setData(data: Columns): void;
  setSize(size: { width: number; height: number }): void;
  destroy(): void;
}
