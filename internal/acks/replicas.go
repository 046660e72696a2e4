package acks

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/session"
)

// replicas are how many a master has.
type replicas struct {
	run  string        // which history of the master's they follow
	most int           // the most that it had at once, lately
	till time.Duration // that is lately
}

// lately is for how long a replica counts that the master has lost: it may still take over.
const lately = time.Minute

// wanted are how many must have something.
func (r *replicas) wanted(n int) int {
	switch n {
	case session.MostReplicas:
		return r.most/2 + 1
	case session.AllReplicas:
		return max(r.most, 1)
	}
	return n
}

// see learns what INFO replication says, and reports whether another master says it than before. Another history is
// that of another master, or of one that was away.
func (r *replicas) see(info string, now time.Duration) (changed bool) {
	run, online := "", 0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "master_replid":
			run = value
		case strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online"):
			online++
		}
	}
	changed = r.run != "" && r.run != run
	if run != r.run || online >= r.most || now > r.till {
		*r = replicas{run: run, most: online, till: now + lately}
	}
	return changed
}
