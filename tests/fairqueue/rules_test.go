package fairqueue_test

import (
	"reflect"
	"strings"
)

// without names the rules that are dropped from our scripts. Its zero value drops none: that is the product. Each of
// the others was once proposed, or forgotten; TestK1 to TestK11 show what dropping it costs.
type without struct {
	// What a score of ours allows for:

	inFront    bool // it allows for Java's waiters behind as well, not only for those in front
	headExempt bool // so does the head's
	recount    bool // it is not written anew: what a re-poll finds above alive is kept
	allowance  bool // it allows for no Java waiter at all
	left       bool // it leaves out what is left of the lock's lease
	nextLease  bool // it leaves out the 30 s for which the next holder may hold
	burial     bool // our dead stay where they are, and Java's waiters are those in queue less those in alive
	flat       bool // as in Java's chain, our own wait is added to the score of the one in front

	// Who is removed, and who comes back:

	settle      bool // a head keeps a score that was written for what stood in front of it
	freeOnly    bool // dead heads are removed even while the lock is held
	hearing     bool // a release drops a due Java head without asking whether it lives
	predecessor bool // a waiter that was dropped alive comes back in front of everybody
	farther     bool // … or behind its direct predecessor, if that is in the queue, else in front of everybody

	// Who is handed the lock:

	once     bool // a waiter whose place is gone gets another one under the same wire owner
	unheard  bool // who has not heard of its grant keeps it
	sure     bool // a waiter believes that it has the lock however late it is told
	comeback bool // who has not heard of its grant loses its place

	notAfter bool // a copy of an acquire is executed however late it comes
}

func (w without) String() string {
	var names []string
	for field, value := range reflect.ValueOf(w).Fields() {
		if value.Bool() {
			names = append(names, field.Name)
		}
	}
	return "without " + strings.Join(names, ", ")
}
