// Package openaistream reads the streams of OpenAI's chat completions and Responses APIs, and of servers that are compatible with them. Package agents/openai
// and package codec/openai share it.
package openaistream
