/** How a program reads this session and writes to it. */
export function Code({ id }: { id: string }) {
  const origin = location.origin;
  const samples: Array<[string, string]> = [
    ["A terminal", `curl -N '${origin}/v1/sessions/${id}/events'\ntailrace tail ${id}`],
    [
      "React with the AI SDK, on a page of this origin",
      `import { useChat } from "@ai-sdk/react";\n\nconst id = "${id}";\nconst snapshot = await (await fetch(\`/v1/sessions/\${id}/snapshot\`)).json();\nconst { messages, sendMessage } = useChat({ id, messages: snapshot.messages, resume: true });`,
    ],
    ["JavaScript", `import { followSession } from "tailrace-client";\n\nfor await (const event of followSession({ url: "${origin}", session: "${id}" })) console.log(event);`],
  ];
  return (
    <details class="code">
      <summary>Code for this session</summary>
      {samples.map(([name, text]) => (
        <div key={name}>
          <h3>{name}</h3>
          <pre class="json" tabIndex={0}>{text}</pre>
        </div>
      ))}
    </details>
  );
}

/** How an agent that answers over HTTP gets the chats of this page. */
export function Bring() {
  const samples: Array<[string, string]> = [
    ["agents.json, with the route that you have", `{"agents": {"support": {"http": {"url": "${location.protocol}//127.0.0.1:3000/api/chat", "dialect": "aisdk"}}}}`],
    ["Then", "tailrace up --agents agents.json --chat-agent support"],
  ];
  return (
    <details class="code">
      <summary>Bring your agent</summary>
      {samples.map(([name, text]) => (
        <div key={name}>
          <h3>{name}</h3>
          <pre class="json" tabIndex={0}>{text}</pre>
        </div>
      ))}
      <p>The route stays as it is. Other dialects are agui, mastra, anthropic, kortyx, native and openai; docs/guides/http-agent.md has the rest.</p>
    </details>
  );
}
