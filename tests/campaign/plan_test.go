package campaign

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The size of a round.
const (
	players     = 4 // processes with Holdfast
	clientsEach = 3
	mostKinds   = 6
	storm       = 15 * time.Second // while the nemesis strikes
)

// longLease is longer than a failover takes; those who have one lose it in a failover that forgets it.
const longLease = 10 * time.Second

// settled is how long after the storm whatever it has left may be in the way: a lease of the dead.
func (r round) settled() time.Duration { return r.Lease + 2*time.Second }

// calm is the time after the storm: longer than anybody may wait for what is free.
func (r round) calm() time.Duration { return r.settled() + latest + 3*time.Second }

// shortOfDeath is so short a silence that nobody takes a master for dead.
const shortOfDeath = 1200 * time.Millisecond

// unit is what strokes are measured by.
func (r round) unit() time.Duration { return min(r.Lease, 2*time.Second) }

// A round is all that a campaign's seed decides of one deployment: what is played on it, and what befalls it when.
type round struct {
	Number  int
	Seed    uint64
	Site    string
	Lease   time.Duration
	Acks    bool // all replicas must have what is acquired
	Objects []object
	Java    string // what a process with Redisson plays beside the others; "": there is none
	Strokes []stroke
}

func (r round) String() string {
	parts := []string{fmt.Sprintf("%s, lease %v, seed %d, with %v", r.Site, r.Lease, r.Seed, r.Objects)}
	if r.Acks {
		parts = append(parts, "all replicas must have what is acquired")
	}
	if r.Java != "" {
		parts = append(parts, "Java plays "+r.Java)
	}
	for _, st := range r.Strokes {
		parts = append(parts, st.String())
	}
	return strings.Join(parts, "; ")
}

func (st stroke) String() string {
	text := fmt.Sprintf("%.1f s: %s %d", st.At.Seconds(), st.What, st.Victim)
	if st.Lasts > 0 {
		text += fmt.Sprintf(" for %.1f s", st.Lasts.Seconds())
	}
	return text
}

// A stroke is one thing that the nemesis does, and for how long.
type stroke struct {
	At, Lasts time.Duration // from the beginning of the round
	What      string
	Victim    int // a process
}

// Where a round may take place, and what may befall its servers there.
var sites = map[string][]string{
	"single": {
		"pause the server", "flush the scripts", "drop the clients", "forget", "restart", "restart empty", "fill the memory",
		"evict", "take rights", "fail over behind the address", clockBack, clockForward,
	},
	"sentinel": {"kill the master", "pause the server", "flush the scripts", "drop the clients"},
	"cluster": {
		"kill a master", "move slots", "pause the server", "flush the scripts", "drop the clients", "switch over",
	},
}

// What may befall a process; connections are only reached where a proxy stands before the server.
var (
	ofProcesses = []string{"kill", "stop", "stop for long"}
	ofLinks     = []string{
		"cut", "silence", "delay", "lose replies", "lose commands", "lose messages", "refuse connections",
		"late commands", "repeat commands",
	}
)

// What may befall one of the servers of a RedLock.
var ofTheThree = []string{"pause one of three", "restart one of three empty"}

const three = 3

// siteNames are in the order of the rounds.
var siteNames = []string{"single", "sentinel", "single", "cluster"}

// plan decides a round. The same seed, number and kinds make the same round.
func plan(seed uint64, number int, kinds []string, java bool) round {
	random := rand.New(rand.NewPCG(seed, uint64(number))) //nolint:gosec // it has to be repeatable
	r := round{Number: number, Seed: seed, Site: siteNames[number%len(siteNames)]}
	r.Lease = []time.Duration{time.Second, 2 * time.Second}[random.IntN(2)]
	if r.Site != "single" && random.IntN(3) > 0 { // leases that outlast a failover
		r.Lease = longLease
		r.Acks = r.Site == "sentinel" && random.IntN(2) == 0
	}
	kinds = slices.Clone(kinds)
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:min(len(kinds), mostKinds)]
	if i := slices.IndexFunc(kinds, func(k string) bool { return things[k].java }); java && !r.Acks && i >= 0 {
		r.Java = kinds[i]
		kinds[0], kinds[i] = kinds[i], kinds[0] // so its objects have the first names, as Java knows them
	}
	for _, kind := range kinds {
		for range 1 + random.IntN(2) {
			r.Objects = append(r.Objects, object{Kind: kind, Name: fmt.Sprint("lock ", len(r.Objects))})
		}
	}
	strokes := slices.Concat(ofProcesses, ofProcesses)
	if r.Site == "single" {
		strokes = slices.Concat(strokes, ofLinks, ofLinks)
	}
	for at := time.Second; at < storm-time.Second; at += time.Duration(100+random.IntN(900)) * time.Millisecond {
		what := strokes[random.IntN(len(strokes))]
		r.Strokes = append(r.Strokes, stroke{
			At: at, What: what, Victim: random.IntN(players), Lasts: lasts(random, what, r.unit()),
		})
	}
	ofServers := slices.DeleteFunc(slices.Clone(sites[r.Site]), func(what string) bool {
		// Redisson ends permits and places in a queue by the clock of its host, which has to be that of the server.
		return (what == clockBack || what == clockForward) && (r.Java == "permits" || r.Java == "fairlock")
	})
	// Few of the servers': more would leave nothing to be hit.
	for range 2 + random.IntN(2) {
		what := ofServers[random.IntN(len(ofServers))]
		r.Strokes = append(r.Strokes, stroke{
			At: 2*time.Second + time.Duration(random.Int64N(int64(storm/2))), What: what, Lasts: lasts(random, what, r.unit()),
		})
		if last := &r.Strokes[len(r.Strokes)-1]; what == "pause the server" && r.Site != "single" {
			last.Lasts = min(last.Lasts, shortOfDeath)
		}
	}
	if slices.Contains(kinds, "redlock") {
		for _, what := range ofTheThree {
			r.Strokes = append(r.Strokes, stroke{
				At: 2*time.Second + time.Duration(random.Int64N(int64(storm/2))), What: what, Victim: random.IntN(three),
				Lasts: lasts(random, what, r.unit()),
			})
		}
	}
	slices.SortStableFunc(r.Strokes, func(a, b stroke) int { return cmp.Compare(a.At, b.At) })
	return r
}

// lasts is how long a stroke lasts; most of them need not, or last as long as they take.
func lasts(random *rand.Rand, what string, unit time.Duration) time.Duration {
	part := func(of time.Duration) time.Duration { return time.Duration(random.Int64N(int64(of))) }
	switch what {
	case "stop", "delay", "lose replies", "lose commands", "lose messages", "late commands", "repeat commands",
		"fill the memory", "evict", "take rights", clockBack, clockForward:
		return part(unit)
	case "stop for long":
		return unit*5/4 + part(unit)
	case "silence", "refuse connections":
		return part(2 * unit)
	case "pause the server", "pause one of three":
		return part(unit * 3 / 2)
	}
	return 0
}
