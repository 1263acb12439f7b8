export { TailraceError } from "./errors.js";
export type { ConnectionOptions } from "./http.js";
export { Outline, outlineOf, withoutRemoved, type LogRecord, type OutlineAgent, type OutlineNode } from "./outline.js";
export { followRecords, type RecordEvent, type RecordOptions } from "./records.js";
