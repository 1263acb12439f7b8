import react from '@vitejs/plugin-react';
import { defineConfig, type ProxyOptions } from 'vite';

// The pages come from here, /api from a Tailrace edge: `tailrace up` has one.
const edge: ProxyOptions = {
  target: process.env.TAILRACE_EDGE ?? 'http://127.0.0.1:4480',
  configure: (proxy) => {
    // Vite's proxy does not tell the browser when the edge breaks off. Without this
    // a page would wait for ever for the rest of an answer, and not reconnect.
    proxy.on('proxyRes', (from, _request, to) => {
      from.on('close', () => from.complete || to.destroy());
    });
  },
};

export default defineConfig({
  plugins: [react()],
  base: './', // so that the built files work below any path
  server: { proxy: { '/api': edge } },
  preview: { proxy: { '/api': edge } },
});
