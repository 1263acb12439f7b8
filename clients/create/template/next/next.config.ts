import type { NextConfig } from "next";

const tailrace = process.env.TAILRACE_URL ?? "http://127.0.0.1:4480";

// The page posts to /api/chat, which is Tailrace. Tailrace posts each message once to /api/agent, which is app/api/agent/route.ts.
const config: NextConfig = {
  compress: false, // it would hold back the events of an answer
  rewrites: async () => [{ source: "/api/chat/:path*", destination: `${tailrace}/api/chat/:path*` }],
};

export default config;
