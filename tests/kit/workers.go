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

// OpenObserved opens the session of a worker that sees what becomes of its calls. With a short lease it may dial for a
// sixth of that, which is too little on a machine that starts many workers: then it dials again, until others have done
// what they have to.
func OpenObserved(addr string, lease time.Duration, o *holdfast.Observer) *holdfast.Session {
	for end := time.Now().Add(2 * time.Minute); ; {
		s, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{addr}},
			&holdfast.Options{Lease: lease, Anonymous: true, Observer: o})
		if err == nil {
			return s
		}
		if time.Now().After(end) {
			Must(err)
		}
	}
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
