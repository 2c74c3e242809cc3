package failure

// sentences are what dead letters had for a reason before reasons were codes. They are stored, so they never change.
var sentences = map[string]Reason{
	"sink refused the event":         SinkRejected,
	"all attempts failed":            AttemptsExhausted,
	"message is not a CloudEvent":    NotACloudEvent,
	"event cannot be sent over HTTP": NotSendable,
	"too many replies in a chain":    TooManyReplies,
}

// OfSentence is the reason that a dead letter means by a sentence, and the message that goes with it.
func OfSentence(sentence string) (Reason, string) {
	if r, known := sentences[sentence]; known {
		return r, r.Message()
	}
	if sentence == "" {
		return Unknown, Unknown.Message()
	}
	return Unknown, sentence
}
