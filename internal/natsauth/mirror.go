package natsauth

import "github.com/tailrace/tailrace/topology"

// onLeaf returns grants for requests to the leaf node, with those of the grants.
func (g *grants) onLeaf(grant func(*grants)) {
	if g.MirrorDomain == "" {
		return
	}
	local := *g
	local.apis = []string{"$JS.API.", "$JS." + g.MirrorDomain + ".API."}
	grant(&local)
	g.pub = local.pub
}

// mirrors allows the mirrors to be created and deleted.
func (g *grants) mirrors(names []string) {
	g.onLeaf(func(local *grants) {
		for _, name := range names {
			local.call("STREAM.INFO."+name, "STREAM.CREATE."+name, "STREAM.DELETE."+name)
		}
	})
}

// checkMirrors allows the comparison of the mirrors with their streams.
func (g *grants) checkMirrors() {
	g.onLeaf(func(local *grants) {
		for _, name := range topology.Mirrored(g.layout) {
			local.call("STREAM.INFO." + name)
		}
	})
}

// readMirrors allows reading the mirrors.
func (g *grants) readMirrors() {
	g.checkMirrors()
	g.onLeaf(func(local *grants) {
		local.readLog()
		for _, log := range g.logs { // the feed has no filter
			local.call("CONSUMER.CREATE." + log + ".*")
		}
		local.readSnapshots()
		local.listSnapshots()
	})
}
