// Package oldturn has copies of the writers of the dialects, as they were before one machine served all of them: the writer of AG-UI in agui, of the AI SDK in
// aisdk, of Mastra in mastra, of Kortyx in kortyx, and what they shared in dialect. They are the reference of package turnequal, which compares what the new
// writers write with what these wrote. They are not changed, and are deleted when the machine serves all dialects.
package oldturn
