package chunk

// Chunk is one thing an agent said or did, with the base members that every
// chunk carries.
type Chunk struct {
	AgentID   string // session id of the agent that produced it
	AgentType string // name of the agent's definition
	Timestamp int64  // Unix milliseconds
	Step      int64  // step of the agent in its current turn, 0 before the first; absent is read as 0
	Body      Body
	Extra     []Member // members the catalogue does not know, in the order they came
}

// Member is one member of a JSON object.
type Member struct {
	Name  string
	Value Value
}

// Type of the chunk's body, "" when there is none.
func (c Chunk) Type() Type {
	if c.Body == nil {
		return ""
	}
	return c.Body.Type()
}
