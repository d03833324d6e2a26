package main

// What a page of one of the origins may do, the same at each address that clients
// ask: the HTTP API, and the URLs of functions. Lambda and API Gateway answer for
// it themselves, and no function hears of a preflight.

// corsSeconds is how long a browser may remember what it was allowed.
const corsSeconds = 600

// corsMethods are those that the API has. A function URL takes six at most, none
// longer than six letters, so OPTIONS could not be among them; nor need it be:
// https://docs.aws.amazon.com/lambda/latest/api/API_Cors.html.
func corsMethods[M ~string]() *[]M {
	return &[]M{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
}

// corsHeaders are what the console and clients like it send. Perdure-Actor and
// Perdure-Roles are none: a key that may speak for others belongs in no page.
func corsHeaders() []string {
	return []string{"authorization", "content-type", "idempotency-key", "if-match", "if-none-match", "last-event-id"}
}

// corsExposed are what pages may read of an answer, beside what they always may.
// The last two name a request in the log, each at its own door.
func corsExposed() []string {
	return []string{"etag", "idempotency-replayed", "location", "retry-after", "apigw-requestid", "x-amzn-requestid"}
}
