// The tools that this page runs, under the names that the agent uses.
export const tools: Record<string, (input: unknown) => unknown> = {
  page_time_zone: () => Intl.DateTimeFormat().resolvedOptions().timeZone,
  page_language: () => navigator.language,
};
