// Package httpagent tests the HTTP agents against servers of the dialects' own packages, with models that have fixed answers. (The route with the AI SDK is in package
// chat, behind a page.) Build tag e2e.
package httpagent
