// Package langchain has the tests of the routes of LangChain's Agent Streaming Protocol with its stock clients, whose versions packages/package-lock.json pins:
// @langchain/langgraph-sdk in Node.js, and useStream of @langchain/react in a browser. They run against an edge with the demo agents. They run with the build tag e2e.
package langchain
