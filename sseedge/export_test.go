package sseedge

// Routes are all that an Edge may serve, as "GET /v1/events".
func Routes() []string {
	all := make([]string, len(routes))
	for i, rt := range routes {
		all[i] = rt.method + " " + rt.path
	}
	return all
}
