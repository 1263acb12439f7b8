import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// The pages come from here, /api from a Tailrace edge: `tailrace up` has one.
const edge = process.env.TAILRACE_EDGE ?? 'http://127.0.0.1:4480';

export default defineConfig({
  plugins: [react()],
  base: './', // so that the built files work below any path
  server: { proxy: { '/api': edge } },
  preview: { proxy: { '/api': edge } },
});
