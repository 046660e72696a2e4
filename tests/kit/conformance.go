package kit

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A conformance test is one that kinds must pass.
type conformance func(t *testing.T, k Kind, srv *redistest.Server)

// EachKind runs test in parallel for every kind, each with its own server.
func EachKind(t *testing.T, test conformance) { run(t, rows(Kinds, false), test) }

// EachAlone is EachKind for the kinds whose locks are on one server.
func EachAlone(t *testing.T, test conformance) { run(t, rows(OnOneServer(), false), test) }

// EveryKind is EachKind on real servers and on the embedded one of holdfasttest: users must test on what their programs
// run with. What the embedded server does is the same for kinds whose scripts are those of another one, so only
// [EveryKindEverywhere] runs these there, too.
func EveryKind(t *testing.T, test conformance) { run(t, everyRow(Kinds), test) }

// EveryKindEverywhere is EveryKind with all kinds on both servers.
func EveryKindEverywhere(t *testing.T, test conformance) {
	run(t, slices.Concat(rows(Kinds, false), rows(Kinds, true)), test)
}

// EveryKindCounted is EveryKind for a test that looks how often scripts were called.
func EveryKindCounted(t *testing.T, test conformance) {
	all := everyRow(Kinds)
	for i := range all {
		all[i].counted = true
	}
	run(t, all, test)
}

// EveryAlone is EachAlone on both servers.
func EveryAlone(t *testing.T, test conformance) { run(t, everyRow(OnOneServer()), test) }

// EveryLock is EveryKind for the kinds that have owners.
func EveryLock(t *testing.T, test conformance) { run(t, everyRow(owned()), test) }

// What follows is for tests that mostly wait: eight kinds do so at once, in the place of one test. Of embedded servers,
// which are in this process, there are two at once.

// EachKindAtOnce is EachKind, eight at once.
func EachKindAtOnce(t *testing.T, test conformance) { runAtOnce(t, Kinds, false, test) }

// EachAloneAtOnce is EachAlone, eight at once.
func EachAloneAtOnce(t *testing.T, test conformance) { runAtOnce(t, OnOneServer(), false, test) }

// EachLockAtOnce is EachKindAtOnce for the kinds that have owners.
func EachLockAtOnce(t *testing.T, test conformance) { runAtOnce(t, owned(), false, test) }

// EveryKindAtOnce is EveryKind, eight at once.
func EveryKindAtOnce(t *testing.T, test conformance) { runAtOnce(t, Kinds, true, test) }

// EveryLockAtOnce is EveryLock, eight at once.
func EveryLockAtOnce(t *testing.T, test conformance) { runAtOnce(t, owned(), true, test) }

func owned() []Kind {
	return slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return k.Permits || k.Several })
}

// A row is one subtest of a conformance test: a kind, on a real server or on the embedded one.
type row struct {
	kind     Kind
	embedded bool
	counted  bool // the server tells how often scripts were called
}

func rows(kinds []Kind, embedded bool) (all []row) {
	for _, k := range kinds {
		all = append(all, row{kind: k, embedded: embedded, counted: k.Polls})
	}
	return all
}

func everyRow(kinds []Kind) []row {
	return slices.Concat(rows(kinds, false), rows(withOwnScripts(kinds), true))
}

func withOwnScripts(kinds []Kind) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return k.Twin || k.Borrows })
}

func (r row) name() string {
	if r.embedded {
		return "embedded " + r.kind.Name
	}
	return r.kind.Name
}

func (r row) run(t *testing.T, test conformance) {
	k, most := r.kind, r.kind.Most
	start := func() *redistest.Server { return redistest.Start(t) }
	if k.Embedded = r.embedded; r.embedded {
		most, start = newEmbeddedRedLocks, func() *redistest.Server { return StartEmbedded(t) }
		if r.counted {
			start = func() *redistest.Server { return startCounted(t) }
		}
	}
	if k.Most != nil {
		k.Make = most(t)
	}
	test(t, k, start())
}

func run(t *testing.T, all []row, test conformance) {
	t.Parallel()
	for _, r := range all {
		t.Run(r.name(), func(t *testing.T) {
			t.Parallel()
			r.run(t, test)
		})
	}
}

// runAtOnce runs the rows of real servers, and then those of the embedded one if it is asked to.
func runAtOnce(t *testing.T, kinds []Kind, embeddedToo bool, test conformance) {
	t.Parallel()
	play := func(t *testing.T, r row) { r.run(t, test) }
	InParallel(t, 8, rows(kinds, false), row.name, play)
	if embeddedToo {
		InParallel(t, 2, rows(withOwnScripts(kinds), true), row.name, play)
	}
}
