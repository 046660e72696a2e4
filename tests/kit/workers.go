package kit

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// WorkerLease is the lease of the sessions of workers.
const WorkerLease = time.Second

// OpenWorker opens the session of a worker.
func OpenWorker(addr string, lease time.Duration) *holdfast.Session {
	return OpenObserved(addr, lease, nil)
}

// OpenObserved opens the session of a worker that sees what becomes of its calls.
func OpenObserved(addr string, lease time.Duration, o *holdfast.Observer) *holdfast.Session {
	s, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{addr}},
		&holdfast.Options{Lease: lease, Anonymous: true, Observer: o})
	Must(err)
	return s
}

// Must ends a worker that cannot go on.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// Say reports something from a worker to its test.
func Say(what any) {
	text, err := json.Marshal(what)
	Must(err)
	worker.Say("%s", text)
}
