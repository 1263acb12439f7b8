package mastra

// keptPrefix begins the names of the events that are chunks of Mastra.
const keptPrefix = "mastra."
