package dispatch

import (
	"sync"
	"time"
)

// workers run jobs on goroutines that stay for further jobs: on a new goroutine the stack would have to grow for each
// event. There are as many as jobs ran at a time lately.
type workers struct {
	run func(*job)
	all sync.WaitGroup

	mu     sync.Mutex
	free   int         // workers that are completing a job and will ask for another one
	ready  []*job      // what such workers are to run
	idle   []chan *job // of the workers that wait, the one that waits longest first
	unused int         // the fewest that waited since the last sweep
	timer  *time.Timer // of the sweep; nil while no worker waits
	ended  bool
}

// workerIdle is how long a worker waits for a job before its goroutine may end.
const workerIdle = time.Second

// start runs a job. It does not block.
func (w *workers) start(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch last := len(w.idle) - 1; {
	case w.free > 0:
		w.free--
		w.ready = append(w.ready, j)
	case last >= 0:
		w.idle[last] <- j
		w.idle[last] = nil
		w.idle = w.idle[:last]
		w.unused = min(w.unused, last)
	default:
		w.all.Go(func() { w.work(j) })
	}
}

// completing announces that the calling job ends soon, so that its worker can run the next one: to wake another worker
// would cost more.
func (w *workers) completing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free++
}

func (w *workers) work(j *job) {
	jobs := make(chan *job, 1)
	for j != nil {
		w.run(j)
		if j = w.next(jobs); j == nil {
			j = <-jobs
		}
	}
}

// next returns the job that a worker runs after one that announced its end. Without one the worker has to wait.
func (w *workers) next(jobs chan *job) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.ready) - 1; last >= 0 {
		j := w.ready[last]
		w.ready[last] = nil
		w.ready = w.ready[:last]
		return j
	}
	w.free--
	if w.ended {
		jobs <- nil
		return nil
	}
	w.idle = append(w.idle, jobs)
	if w.timer == nil {
		w.unused = 0
		w.timer = time.AfterFunc(workerIdle, w.sweep)
	}
	return nil
}

// sweep ends the workers that had nothing to do since the sweep before.
func (w *workers) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dismiss(w.unused)
	w.unused = len(w.idle)
	if w.unused == 0 {
		w.timer = nil
		return
	}
	w.timer.Reset(workerIdle)
}

// dismiss ends the first workers that wait. The caller holds the lock.
func (w *workers) dismiss(count int) {
	for _, jobs := range w.idle[:count] {
		jobs <- nil
	}
	w.idle = append([]chan *job{}, w.idle[count:]...)
}

// wait returns when all jobs are done. None may be started that no job starts.
func (w *workers) wait() {
	w.mu.Lock()
	w.ended = true
	w.unused = 0
	w.dismiss(len(w.idle))
	w.mu.Unlock()
	w.all.Wait()
}
