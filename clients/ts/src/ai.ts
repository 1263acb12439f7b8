export type { ConnectionState } from "./ai_answer.js";
export { isAnswered, useTailraceChat, type PageTools, type TailraceChat, type TailraceChatOptions } from "./ai_react.js";
export { isStale, TailraceChatTransport, TailraceError, type ChatSnapshot, type TransportOptions } from "./ai_transport.js";
