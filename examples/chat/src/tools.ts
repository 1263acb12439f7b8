// What an agent may ask this page to run. The names are the agent's.
export const tools: Record<string, (input: unknown) => unknown> = {
  page_time_zone: () => Intl.DateTimeFormat().resolvedOptions().timeZone,
  page_language: () => navigator.language,
};
