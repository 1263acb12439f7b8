import react from '@vitejs/plugin-react';
import { defineConfig, type ProxyOptions } from 'vite';

// Vite serves the pages and proxies /api and /v1 to a Tailrace edge, such as `tailrace up`.
const edge: ProxyOptions = {
  target: process.env.EDGE_URL ?? 'http://127.0.0.1:4480',
  configure: (proxy) => {
    // Vite's proxy does not close its response when the edge closes the connection. Without this handler a
    // page would wait indefinitely for the rest of an answer instead of reconnecting.
    proxy.on('proxyRes', (from, _request, to) => {
      from.on('close', () => from.complete || to.destroy());
    });
  },
};

const proxy: Record<string, ProxyOptions | string> = { '/api': edge, '/v1': edge };
if (process.env.LOGIN_URL) proxy['/login'] = proxy['/token'] = process.env.LOGIN_URL; // ./login

export default defineConfig({
  plugins: [react()],
  base: './', // so that the built files work below any path
  server: { proxy },
  preview: { proxy },
});
