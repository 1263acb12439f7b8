// Compiled, not run: the types of the chats in an application. It does not check those of the AI SDK, which name packages for Node.js.
import { TailraceChatTransport, useTailraceChat } from "tailrace-client/ai";

export function useChatPage(id: string): string {
  const chat = useTailraceChat({ id, url: "/", getToken: () => "token", agentType: "support", tools: { zone: (input: { of: string }) => input.of } });
  const state: "live" | "reconnecting" | "offline" = chat.connection;
  void chat.sendMessage({ text: "Hello" }, { body: { mode: "queue" } });
  return `${state} ${chat.loading} ${chat.messages.length} ${new TailraceChatTransport().position(id)}`;
}
