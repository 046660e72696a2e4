package peers_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/peers"
	"github.com/holdfast-go/holdfast/tests/worker"
)

var (
	rows      = flag.String("rows", "", "a regular expression: what to measure, as 'one lock, 16, 1ms' or Waiters")
	libraries = flag.String("libraries", "", "a regular expression: the libraries to measure; 'of R1' needs R1")
	rounds    = flag.Int("rounds", 5, "how often everything is measured, except memory")
	window    = flag.Duration("window", 700*time.Millisecond, "how long a row measures a library in a round")
	page      = flag.String("page", "bin/benchmarks.md", "where the tables go, from the repository's top; the plots, too")
)

func TestMain(m *testing.M) {
	worker.Run(peers.Roles)
	os.Exit(m.Run())
}

// make bench-peers runs it, once.
func BenchmarkPeers(b *testing.B) {
	load, _ := os.ReadFile("/proc/loadavg")
	set := peers.Settings{
		Rows: regexp.MustCompile(*rows), Libraries: regexp.MustCompile(*libraries), Rounds: *rounds, Window: *window,
		Names: 1000, Holds: 50_000, Lease: 10 * time.Second,
	}
	about := peers.About(set, time.Now(), strings.Join(strings.Fields(string(load))[:min(3, len(load))], " "))
	to := *page
	if !filepath.IsAbs(to) {
		to = filepath.Join("..", "..", to)
	}
	peers.Measure(b, set, func(tables peers.Tables) {
		if err := peers.Write(to, about, tables); err != nil {
			b.Error(err)
		}
	})
	text, err := os.ReadFile(to)
	fmt.Println(string(text), err)
}

// Everything runs, for a moment and without Java, so that it does when somebody wants it.
func TestEverythingRuns(t *testing.T) {
	set := peers.Settings{
		Rows: regexp.MustCompile(`(1|16) free|4, 0s|five servers, 1$|Waiters`), Libraries: regexp.MustCompile(`^[^R]|^RedL`),
		Rounds: 1, Window: 20 * time.Millisecond, Names: 10, Holds: 50, Lease: time.Second,
	}
	page := filepath.Join(t.TempDir(), "page.md")
	peers.Measure(t, set, func(tables peers.Tables) {
		if err := peers.Write(page, peers.About(set, time.Now(), "-"), tables); err != nil {
			t.Error(err)
		}
	})
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{"rlock", "RedLock of rlocks", "redsync on go-redis", "redislock", "rueidislock"} {
		if !strings.Contains(string(text), "| "+library+" | ") {
			t.Errorf("%s is in no table:\n%s", library, text)
		}
	}
}
