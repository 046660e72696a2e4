package kit

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A conformance test is one that kinds must pass.
type conformance func(t *testing.T, k Kind, srv *redistest.Server)

// EachKind runs test in parallel for every kind, each with its own server.
func EachKind(t *testing.T, test conformance) { run(t, rows(Kinds), test) }

// EachAlone is EachKind for the kinds whose locks are on one server.
func EachAlone(t *testing.T, test conformance) { run(t, rows(OnOneServer()), test) }

// EachLock is EachKind for the kinds that have owners.
func EachLock(t *testing.T, test conformance) { run(t, rows(owned()), test) }

// EveryKind is EachKind on real servers and on the embedded one of holdfasttest: users must test on what their programs
// run with.
func EveryKind(t *testing.T, test conformance) { run(t, everyRow(Kinds), test) }

// EveryAlone is EachAlone on both servers.
func EveryAlone(t *testing.T, test conformance) { run(t, everyRow(OnOneServer()), test) }

// EveryLock is EachLock on both servers.
func EveryLock(t *testing.T, test conformance) { run(t, everyRow(owned()), test) }

// What follows is for tests that mostly wait: eight kinds do so at once, in the place of one test. Of embedded servers,
// which are in this process, there are two at once.

// EachKindAtOnce is EachKind, eight at once.
func EachKindAtOnce(t *testing.T, test conformance) { runAtOnce(t, rows(Kinds), test) }

// EachAloneAtOnce is EachAlone, eight at once.
func EachAloneAtOnce(t *testing.T, test conformance) { runAtOnce(t, rows(OnOneServer()), test) }

// EachLockAtOnce is EachLock, eight at once.
func EachLockAtOnce(t *testing.T, test conformance) { runAtOnce(t, rows(owned()), test) }

// EveryKindAtOnce is EveryKind, eight at once.
func EveryKindAtOnce(t *testing.T, test conformance) { runAtOnce(t, everyRow(Kinds), test) }

// EveryLockAtOnce is EveryLock, eight at once.
func EveryLockAtOnce(t *testing.T, test conformance) { runAtOnce(t, everyRow(owned()), test) }

func owned() []Kind {
	return slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return k.Permits || k.Several })
}

// A row is one subtest of a conformance test.
type row struct {
	name     string
	embedded bool
	run      func(t *testing.T, test conformance)
}

func rows(kinds []Kind) (all []row) {
	for _, k := range kinds {
		all = append(all, row{k.Name, false, func(t *testing.T, test conformance) {
			if k.Most != nil {
				k.Make = k.Most(t)
			}
			test(t, k, redistest.Start(t))
		}})
	}
	return all
}

func everyRow(kinds []Kind) []row {
	all := rows(kinds)
	for _, k := range kinds {
		all = append(all, row{"embedded " + k.Name, true, func(t *testing.T, test conformance) {
			if k.Most != nil {
				k.Make = newEmbeddedRedLocks(t)
			}
			test(t, k, StartEmbedded(t))
		}})
	}
	return all
}

func run(t *testing.T, all []row, test conformance) {
	t.Parallel()
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.run(t, test)
		})
	}
}

func runAtOnce(t *testing.T, all []row, test conformance) {
	t.Parallel()
	for embedded, atOnce := range map[bool]int{false: 8, true: 2} {
		some := slices.DeleteFunc(slices.Clone(all), func(r row) bool { return r.embedded != embedded })
		InParallel(t, atOnce, some, func(r row) string { return r.name }, func(t *testing.T, r row) { r.run(t, test) })
	}
}
