//! Images in recorded prompts. Their placeholder tokens are the same tokens in all of them; vLLM's block
//! hashes tell them apart by the identifiers of the images that a block overlaps.

use serde::Deserialize;
use serde_json::Value;

use super::recording::number;
use crate::request::{Image, Segment};

/// An image of a request line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageLine {
    id: Value,
    offset: u32,
    len: u32,
}

/// The images of a request, whose names are numbered in order of appearance.
pub(super) fn images(lines: &[ImageLine], names: &mut Vec<Value>) -> Vec<Image> {
    let image = |line: &ImageLine| Image {
        identifier: number(names, line.id.clone()) as u64,
        offset: line.offset,
        tokens: line.len,
    };
    lines.iter().map(image).collect()
}

/// The runs of a prompt in which the placeholders of images are tokens of their own.
pub(super) fn with_placeholders(
    prompt: &[Segment],
    images: &[Image],
) -> Result<Vec<Segment>, String> {
    let mut runs = Vec::with_capacity(prompt.len());
    let mut images = images.iter().copied().peekable();
    // Where the next token of the prompt stands, and where the image ends that it belongs to.
    let (mut at, mut image) = (0, None::<Image>);
    for &segment in prompt {
        let mut run = segment;
        while run.len > 0 {
            if image.is_none() {
                image = images.next_if(|image| image.offset == at);
            }
            let edge = match image {
                Some(image) => image.offset.saturating_add(image.tokens),
                None => images.peek().map_or(u32::MAX, |next| next.offset),
            };
            if edge <= at {
                return Err("images have tokens, and follow each other in order".to_owned());
            }
            let len = run.len.min(edge - at);
            runs.push(match image {
                Some(image) => {
                    let stream = Segment::image_stream(image.identifier);
                    Segment { stream, start: at - image.offset, len }
                }
                None => Segment { len, ..run },
            });
            run = Segment { start: run.start + len, len: run.len - len, ..run };
            at = at.saturating_add(len);
            image = image.filter(|_| at < edge);
        }
    }
    if image.is_some() || images.next().is_some() {
        return Err("an image ends behind the prompt".to_owned());
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(identifier: u64, offset: u32, tokens: u32) -> Image {
        Image { identifier, offset, tokens }
    }

    #[test]
    fn placeholders_are_tokens_of_their_image() {
        let run = |stream, start, len| Segment { stream, start, len };
        let prompt = [run(7, 0, 4), run(0, 0, 3), run(7, 7, 2)];
        let runs = with_placeholders(&prompt, &[image(5, 4, 3)]);
        let placeholders = run(Segment::image_stream(5), 0, 3);
        assert_eq!(runs, Ok(vec![run(7, 0, 4), placeholders, run(7, 7, 2)]));
    }

    #[test]
    fn images_out_of_order_or_behind_the_prompt_are_refused() {
        let prompt = [Segment { stream: 7, start: 0, len: 9 }];
        assert!(with_placeholders(&prompt, &[image(5, 4, 3), image(6, 2, 1)]).is_err());
        assert!(with_placeholders(&prompt, &[image(5, 8, 3)]).is_err());
        assert!(with_placeholders(&prompt, &[image(5, 2, 0)]).is_err());
    }
}
