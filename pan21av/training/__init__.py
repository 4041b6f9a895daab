"""`pan21av train`: texts to an ensemble.

Read along the data: corpus, prepare (with sampling), crops; stage one: contrastive, pairs, stage1; stage two:
calibration, heads, abstention, stage2; then member, reuse, report, card, run.
"""
