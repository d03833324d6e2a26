package lambda
