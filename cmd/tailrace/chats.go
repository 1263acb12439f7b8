package main

import (
	"errors"
	"slices"

	"github.com/tailrace/tailrace/codec/aisdk"
)

// subAgentContent is the setting for the output of sub-agents in chats.
type subAgentContent aisdk.SubAgentContent

var subAgentContents = []string{aisdk.Drop: "drop", aisdk.Inline: "inline", aisdk.Data: "data"}

// UnmarshalText parses drop, inline or data.
func (s *subAgentContent) UnmarshalText(text []byte) error {
	i := slices.Index(subAgentContents, string(text))
	if i < 0 {
		return errors.New("want drop, inline or data")
	}
	*s = subAgentContent(i)
	return nil
}

// aisdkOptions returns the form of the AI SDK's events.
func (c config) aisdkOptions() aisdk.Options {
	tools := c.ChatClientTools
	return aisdk.Options{
		Major: c.ChatMajor, SubAgents: aisdk.SubAgentContent(c.ChatSubAgents),
		ClientTool: func(name string) bool { return slices.Contains(tools, name) },
	}
}
