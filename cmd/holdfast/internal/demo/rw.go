package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
)

// rwScene shows the read-write lock: several processes read a document, and others write it, of
// whom one goes on reading what it wrote; a reader is killed in the midst of reading.
var rwScene = scene{
	name:  "rw",
	short: "many processes read or one writes",
	play:  func(ctx context.Context, s *stage) error { return newRWStory(s).tell(ctx) },
	work:  workRW,
}

const (
	rwWriters = 2 // workers 1 and 2
	rwReaders = 6 // the others
	rwLease   = 2 * time.Second
	rwReading = 80 * time.Millisecond // at most
	rwWriting = 20 * time.Millisecond
	rwRest    = 200 * time.Millisecond // of a writer, at most
	rwInVain  = time.Second            // for how long a writer tries behind which readers do not wait
	rwKeep    = 400 * time.Millisecond // for how long a writer goes on reading

	// When what happens, from the beginning.
	meetAt       = 500 * time.Millisecond
	downgradeAt  = 3500 * time.Millisecond
	killReaderAt = 5 * time.Second
	putDownAt    = 8500 * time.Millisecond
)

// rwWrites reports whether that worker is a writer; the others are readers.
func rwWrites(worker int) bool { return worker <= rwWriters }

// An rwStory is one telling of the scene.
type rwStory struct {
	*crew
	document document
	lock     *rwlock.RWMutex // the coordinator's, as in Redisson: readers do not wait behind its writer
	tried    *event          // how that went; nil if it is not over

	together   int           // how many were seen to read at once
	first      time.Duration // for how long the first writer waited behind which readers wait
	downgraded *downgrade    // nil if there is none yet
	dead       *deadReader   // likewise
}

func newRWStory(s *stage) *rwStory {
	r := &rwStory{crew: newCrew(s, rwWriters+rwReaders, 1), document: documentIn(s.file)}
	s.story = r
	return r
}

func (r *rwStory) tell(ctx context.Context) error {
	session, err := open(r.redis[0], rwLease)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // it holds nothing
	r.lock = rwlock.New(session, r.name, nil)
	if err := r.document.foot.write(0); err != nil {
		return err
	}
	if err := r.begin(ctx, setup{Lease: rwLease, Pace: rwReading}); err != nil {
		return err
	}
	r.note("%d processes read a document without a pause, %d write it at times; a read takes up to %s",
		rwReaders, rwWriters, human(rwReading))
	r.say("         it has a number at its head and the same at its foot, but in the midst of a write")
	for _, act := range []func(context.Context) error{
		r.readTogether, r.writeInVain, r.letWrite, r.downgrade, r.killReader, r.check,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readTogether has all readers be in the midst of reading at the same time.
func (r *rwStory) readTogether(ctx context.Context) error {
	if err := r.at(ctx, meetAt); err != nil {
		return err
	}
	if err := r.linger(ctx, r.readers()...); err != nil {
		return err
	}
	r.together = r.count(lingers, r.readers())
	r.note(r.green("%d processes read at once")+": each of them is in the midst of it", r.together)
	return r.order(proceed, r.readers()...)
}

// writeInVain has a writer ask behind which readers do not wait.
func (r *rwStory) writeInVain(ctx context.Context) error {
	r.note("%s as in Redisson, where readers do not wait behind a writer", r.yellow("a writer asks"))
	stop := aside(ctx, func(ctx context.Context) { r.fleet.tell(ctx, r.tryToWrite(ctx)) })
	defer stop()
	if err := r.until(ctx, "the writer's attempt to end", func() bool { return r.tried != nil }); err != nil {
		return err
	}
	switch t := r.tried; {
	case t.err == nil: // no mistake of the lock's
		r.note("it got in after %s: for once no reader was in, on a busy machine", human(t.Waited))
	case errors.Is(t.err, holdfast.ErrBusy):
		r.note("%s: before one reader has gone, another comes; its attempt says:",
			r.green("it has waited "+human(t.Waited)+" in vain"))
		r.say("         " + t.err.Error())
	default:
		return t.err
	}
	return nil
}

func (r *rwStory) tryToWrite(ctx context.Context) event {
	asked := time.Now()
	hold, err := r.lock.Write().TryLockFor(ctx, rwInVain)
	e := event{What: tried, Waited: time.Since(asked), err: err}
	if err == nil {
		e.err = hold.Release()
	}
	return e
}

// letWrite has the writers begin behind which readers wait.
func (r *rwStory) letWrite(ctx context.Context) (err error) {
	if r.first, err = r.letIn(ctx); err != nil {
		return err
	}
	r.note("%s after %s: it asked with PreferWriter, so new readers wait behind it",
		r.green("worker 1 got in to write"), human(r.first))
	if r.first > rwReading+allowance {
		return fmt.Errorf("a writer waited %s for readers that read for %s at most", human(r.first), human(rwReading))
	}
	return r.order(proceed, 2)
}

// letIn has worker 1 ask to write, which stood aside, and returns for how long it waited.
func (r *rwStory) letIn(ctx context.Context) (waited time.Duration, err error) {
	before := r.ledger.workers[1].acquired
	if err := r.order(proceed, 1); err != nil {
		return 0, err
	}
	if err := r.until(ctx, "a writer to get in", func() bool { return r.ledger.workers[1].acquired > before }); err != nil {
		return 0, err
	}
	return r.ledger.workers[1].waits[before], nil
}

// downgrade has a writer go on reading what it wrote, while another one asks.
func (r *rwStory) downgrade(ctx context.Context) error {
	if err := r.standAside(ctx, downgradeAt, 2); err != nil {
		return err
	}
	if err := r.order(keep, 1); err != nil {
		return err
	}
	if err := r.until(ctx, "a writer to go on reading, with all readers", func() bool {
		return r.downgraded != nil && r.atNumber(r.downgraded.wrote) == rwReaders
	}); err != nil {
		return err
	}
	d := r.downgraded
	d.joined = time.Since(d.at)
	r.note("%s the %d it wrote, and %d readers join it at once, all within %s",
		r.green("worker 1 goes on reading"), d.wrote, rwReaders, human(d.joined))
	if d.joined > allowance {
		return fmt.Errorf("readers came in only %s after a writer went on to read", human(d.joined))
	}

	if err := r.order(proceed, 2); err != nil {
		return err
	}
	if err := r.until(ctx, "the other writer to ask", func() bool { return r.count(waiting, []int{2}) == 1 }); err != nil {
		return err
	}
	r.note("%s to write, and has to wait", r.yellow("worker 2 asks"))
	if err := r.at(ctx, time.Since(r.begun)+rwKeep); err != nil {
		return err
	}
	d.over = true
	if err := r.order(proceed, 1); err != nil {
		return err
	}
	if err := r.until(ctx, "the writer to read what it wrote", func() bool { return d.kept > 0 }); err != nil {
		return err
	}
	r.note(r.green("worker 1 reads %d once more")+", %s later: nobody has written in between", d.wrote, human(d.kept))
	return nil
}

// killReader kills a worker while it reads, and has a writer ask when the others have read on.
func (r *rwStory) killReader(ctx context.Context) error {
	if err := r.standAside(ctx, killReaderAt, 1, 2); err != nil {
		return err
	}
	victim := rwWriters + rwReaders
	if err := r.linger(ctx, victim); err != nil {
		return err
	}
	d := &deadReader{worker: victim, at: time.Now()}
	r.dead = d
	if err := r.kill(victim); err != nil {
		return err
	}
	r.note(r.red("SIGKILL")+" to worker %d, which is reading; the lease is %s", victim, human(rwLease))

	before := slices.Clone(r.ledger.workers)
	if err := r.until(ctx, "the others to read on", func() bool {
		for _, w := range r.readers() {
			if r.ledger.workers[w].reads < before[w].reads+2 { // one may have been begun before
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	d.readOn = r.ledger.all().reads - before[0].reads
	r.note(r.green("the %d others read on")+": %d reads since; worker 1 asks to write", len(r.readers()), d.readOn)
	waited, err := r.letIn(ctx)
	if err != nil {
		return err
	}
	d.gone = time.Since(d.at)
	r.note(r.green("worker 1 got in to write")+" after %s, %s after the death", human(waited), human(d.gone))
	if err := timely("reader", d.gone, rwLease); err != nil {
		return err
	}
	return r.order(proceed, 2)
}

// check ends the work, and holds what was told against what is written.
func (r *rwStory) check(ctx context.Context) error {
	count, err := r.end(ctx, putDownAt)
	if err != nil {
		return err
	}
	r.sumUp(count)
	return errors.Join(r.ledger.audit(count), r.document.audit())
}

// take takes in what a worker tells, or how the coordinator's attempt went.
func (r *rwStory) take(e event) error {
	if e.What == tried {
		r.tried = &e
		return nil
	}
	before := r.crew.take(e)
	switch {
	case e.What == torn:
		return fmt.Errorf("worker %d has read a half-written document, %s", e.worker, e.Text)
	case e.What == lost && before == holds && rwWrites(e.worker):
		return fmt.Errorf("worker %d lost the lock in the midst of writing: %s", e.worker, e.Text)
	case e.What == keeps:
		r.downgraded = &downgrade{worker: e.worker, wrote: e.Value, at: e.at}
	case r.downgraded != nil:
		return r.downgraded.take(e)
	}
	return nil
}
