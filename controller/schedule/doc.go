// Package schedule reports in the status of Schedules what has become of them, and whether they hold. Bridges publish their
// events: this controller decides nothing that they wait for, and both decide by internal/schedule.
//
// It guarantees that
//   - Ready says why nothing is published, and names the field or the remedy;
//   - the status is written once a minute at most while nothing changes but the times;
//   - the cursor of a Schedule that is gone is deleted from NATS, and no other.
package schedule
