package demo

import (
	"fmt"
	"slices"
	"strings"
)

// killServers kills servers, by their numbers from 1.
func (r *redLockStory) killServers(numbers ...int) {
	for _, n := range numbers {
		r.servers[n-1].Stop()
		r.gone = append(r.gone, n)
	}
}

// reviveServers has all servers come back.
func (r *redLockStory) reviveServers() error {
	for _, n := range r.gone {
		if err := r.servers[n-1].Restart(); err != nil {
			return fmt.Errorf("server %d: %w", n, err)
		}
	}
	r.gone = nil
	return nil
}

// there is how many servers there are.
func (r *redLockStory) there() int { return redLockServers - len(r.gone) }

// serverLine draws the servers.
func (r *redLockStory) serverLine() string {
	var b strings.Builder
	for n := 1; n <= redLockServers; n++ {
		if slices.Contains(r.gone, n) {
			b.WriteString("   " + r.red(fmt.Sprintf("× %d", n)))
		} else {
			b.WriteString("   " + r.green(fmt.Sprintf("■ %d", n)))
		}
	}
	return "  servers" + b.String() + r.dim(fmt.Sprintf("   %d are needed", redLockMajority))
}
