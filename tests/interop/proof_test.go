package interop_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/interop"
)

// What is to be proven of every kind, in both directions, wherever it is used. The direction of a cell is that of its
// name: who goes first takes the lock that the other cannot have, releases what the other waits for, is killed, or
// forces.
const (
	exclusion  = "exclusion"  // what one side has, the other cannot take
	wakeUp     = "wake-up"    // a release wakes the other side by its message: each time, and mostly in less than 200 ms
	readings   = "readings"   // counts, TTLs, tokens and ids are to one side what they are to the other
	watchdog   = "watchdog"   // what one side renews keeps the other out for three leases
	crash      = "crash"      // what a killed process has held comes to the other side when the lease is over
	forced     = "force"      // one side ends what the other has, and wakes who waits
	inspection = "inspection" // both sides answer alike what is asked of a lock
	naming     = "names"      // plain ones, with colons, with hash tags, beyond ASCII
	mapping    = "mapper"     // a name mapper on both sides
)

const (
	standalone = "standalone"
	inCluster  = "cluster"
)

// The names of what is no lock.
const (
	semaphoreRow = "semaphore"
	expirableRow = "expirable"
	latchRow     = "latch"
)

var (
	properties = []string{exclusion, wakeUp, readings, watchdog, crash, forced, inspection, naming, mapping}
	topologies = []string{standalone, inCluster}
)

// proof is what this run has proven.
var proof = newProof()

func newProof() *interop.Matrix {
	var rows []string
	for _, c := range everyKind() {
		for _, topology := range topologies {
			rows = append(rows, rowOf(c.kind.name, c.first, topology))
		}
	}
	m := interop.NewMatrix(rows, properties)
	// except says why something cannot be proven of a kind when these go first.
	except := func(kind, property, reason string, firsts ...language) {
		for _, first := range firsts {
			for _, topology := range topologies {
				m.Except(rowOf(kind, first, topology), property, reason)
			}
		}
	}
	both := languages
	except(spin.name, wakeUp, "a spin lock has no message: it polls (TestPollingFindsTheRelease)", both...)
	for _, k := range severalKinds {
		const reason = "Redisson's locks of several refuse forceUnlock, isLocked, getHoldCount and remainTimeToLive" +
			" (TestJavaCannotInspectSeveral); of Go's members each has its own"
		except(k.name, forced, reason, both...)
		except(k.name, inspection, reason, both...)
	}
	for _, kind := range []string{semaphoreRow, latchRow} {
		const reason = "it belongs to nobody and has no lease: there is nothing to renew, to free or to take away"
		for _, property := range []string{watchdog, crash, forced} {
			except(kind, property, reason, both...)
		}
	}
	except(expirableRow, watchdog, "Redisson renews no permit", java)
	except(expirableRow, forced, "a permit has no owner: whoever knows its id gives it back (TestExpirableIDsCrossOver)",
		both...)
	for _, first := range languages {
		const remark = "but for a hash tag: Redisson's channel of it is in another slot, " +
			"so both sides refuse it (TestLatchInCluster)"
		m.Remark(rowOf(latchRow, first, inCluster), naming, remark)
		m.Remark(rowOf(latchRow, first, inCluster), mapping, remark)
		m.Remark(rowOf(red.name, first, inCluster), exclusion,
			"the members are on the masters of one cluster, which stand for three servers")
		m.Remark(rowOf(red.name, first, inCluster), mapping,
			"but for a mapper's hash tag, which moves all members to one server")
	}
	return m
}

// rowOf is the row of a kind, of who goes first, and where.
func rowOf(kind string, first language, topology string) string {
	return fmt.Sprintf("%s, %s first, %s", kind, first.name, topology)
}

// proves says that the test proves a property of a kind, if it passes.
func (f *fleet) proves(t *testing.T, property, kind string, first language) {
	t.Helper()
	row := rowOf(kind, first, f.topology())
	t.Cleanup(func() {
		if !t.Skipped() {
			proof.Record(row, property, !t.Failed())
		}
	})
}

// topology is where the fleet is.
func (f *fleet) topology() string {
	if f.cluster != nil {
		return inCluster
	}
	return standalone
}

// report prints what has been proven, if anything, and reports whether that is all of it, or was not asked for.
func report() bool {
	tables := []struct {
		title string
		*interop.Matrix
	}{
		{"What this run has proven of Go and Redisson together:", proof},
		{"And of other releases of Redisson, to take, to be refused, to be woken and to release:", withReleases},
	}
	var missing []string
	var text strings.Builder // empty without Java
	for _, table := range tables {
		missing = append(missing, table.Missing()...)
		if !table.Empty() {
			fmt.Fprintf(&text, "%s\n%s\n", table.title, table)
		}
	}
	fmt.Print(text.String())
	if file := os.Getenv("HOLDFAST_PROOF"); file != "" { // to be shown again when everything is over
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	filtered := slices.ContainsFunc([]string{"run", "skip", "list"}, func(filter string) bool {
		return flag.Lookup("test."+filter).Value.String() != ""
	})
	if text.Len() == 0 || filtered || len(missing) == 0 {
		return true
	}
	fmt.Printf("FAIL: no test proves\n\t%s\n", strings.Join(missing, "\n\t"))
	return false
}
